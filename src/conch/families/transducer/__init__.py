"""Transducers as icefall and NeMo export them for sherpa-onnx."""

from dataclasses import replace

from conch.families.family import (
    Decoder,
    Family,
    FamilyHooks,
    ModelKind,
    TensorInfo,
    WeightsPackage,
)
from conch.families.options import widest_beam
from conch.families.search import (
    DEFAULT_WHEN,
    ENDS_TURN,
    hypotheses,
    live_takes_the_vad,
    rescoring_takes_a_weight,
    search_components,
)

OFFLINE = ("transducer_encoder", "transducer_decoder")
LIVE = ("transducer_streaming_encoder", "transducer_streaming_decoder")
MAX_BEAM = 32
"""Hypotheses that the search keeps."""
PACKAGE = WeightsPackage("transducer", "", "", "conch serve --transducer FOLDER")
FRAMES = "encoder_out"

_HYPOTHESES = hypotheses(
    scores="the order of the texts: of the best its log probability plus hotwords and the "
    "weighted `lm_scores`, of others the mean for a unit, times the units of the best",
    am_scores="log probability of the text given the audio, over the alignments of the beam",
    lm_scores="log probability of the text by fusion, unweighted; otherwise 0",
    word_confidences="geometric mean of the probabilities of the word's units",
)

*_COMPONENTS, _LIVE_DECODER = search_components(
    (*OFFLINE, *LIVE),
    "Transducer",
    "frames",
    (
        TensorInfo(
            FRAMES, "FP32", (-1, -1), "[frames, size], one frame per 40 ms, or 80 ms of NeMo's"
        ),
        TensorInfo(f"{FRAMES}_lens", "INT32", (1,), "number of frames"),
    ),
    (
        TensorInfo(
            FRAMES,
            "FP32",
            (-1, -1),
            "[frames, size] of the chunks that these samples complete; with END all remaining ones",
        ),
        TensorInfo(f"{FRAMES}_lens", "INT32", (1,), "number of frames; 0 without a chunk"),
    ),
    _HYPOTHESES,
    PACKAGE,
    encoder_parameters={"language": str},
)
_ENDING_DECODER = replace(
    _LIVE_DECODER,
    outputs=(
        *_LIVE_DECODER.outputs,
        TensorInfo(
            ENDS_TURN,
            "INT32",
            (1,),
            "1 if the last unit of the best text says that the speaker has finished, else 0",
        ),
    ),
)

FAMILY = Family(
    name="transducer",
    title="Transducer",
    components=(*_COMPONENTS, _ENDING_DECODER),
    models=(
        ModelKind(
            name="transducer",
            title="Transducer",
            components=(*OFFLINE, *LIVE),
            form="a folder of icefall, NeMo or sherpa-onnx",
            help=(
                "a transducer of your own, of icefall or NeMo as exported for sherpa-onnx, in "
                "place of Moonshine and Whisper: docs/guide/your-model.md"
            ),
            check="conch.families.transducer.folder:check_transducer",
            networks="conch.families.transducer.folder:networks_of_transducer",
        ),
    ),
    decoders=(
        Decoder(
            name="transducer",
            components=OFFLINE,
            live=LIVE,
            live_when={"decoder": "transducer"},
            default_when=DEFAULT_WHEN,
            detects_language=True,
            takes=("lm_fusion",),
            weights={("fusion",): {"lm": 0.3, "word_bonus": 1.0}},
            presets={"balanced": {"beam_size": 4}, "best": {"beam_size": 8}},
        ),
    ),
    rules=(
        *widest_beam(MAX_BEAM, "transducer"),
        live_takes_the_vad("transducer"),
        rescoring_takes_a_weight("transducer"),
    ),
    warm_ups=({"decoder": "transducer"}, {"decoder": "transducer", "mode": "streaming"}),
    hooks=FamilyHooks(
        recognisers={"transducer": "conch.families.transducer.recogniser:TRANSDUCER"},
        first_passes={"transducer": "conch.families.transducer.recogniser:TransducerFirstPass"},
    ),
)
