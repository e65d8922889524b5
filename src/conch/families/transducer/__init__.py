"""Transducers as icefall and NeMo export them for sherpa-onnx."""

from conch.families.family import Decoder, Family, ModelKind, WeightsPackage
from conch.families.options import widest_beam
from conch.families.search import (
    DEFAULT_WHEN,
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

FAMILY = Family(
    name="transducer",
    title="Transducer",
    components=(
        *search_components(OFFLINE, "Transducer", PACKAGE),
        *search_components(LIVE, "Transducer, live", PACKAGE, is_stream=True),
    ),
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
            recogniser="conch.families.transducer.recogniser:TRANSDUCER",
            first_pass="conch.families.transducer.recogniser:TransducerFirstPass",
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
)
