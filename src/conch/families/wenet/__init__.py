"""WeNet's U2 and U2++: encoders, and searches whose texts an attention decoder scores."""

from dataclasses import dataclass

from conch.families.family import (
    Decoder,
    Family,
    FamilyHooks,
    ModelKind,
    TensorInfo,
    WeightsPackage,
)
from conch.families.options import option
from conch.families.search import (
    DEFAULT_WHEN,
    hypotheses,
    rescoring_takes_a_weight,
    search_components,
)

OFFLINE = ("wenet_encoder", "wenet_decoder")
LIVE = ("wenet_streaming_encoder", "wenet_streaming_decoder")
PACKAGE = WeightsPackage("WeNet model", "", "", "conch serve --wenet FOLDER")
FRAMES = "frames"
RESCORE = "own_rescore"

_FRAMES = TensorInfo(
    FRAMES,
    "FP32",
    (-1, -1),
    "[frames, units + size]: log probabilities of the units, then what the decoder hears",
)
_LENS = TensorInfo(f"{FRAMES}_lens", "INT32", (1,), "number of frames; 0 if none is complete")
_HYPOTHESES = hypotheses(
    scores="the order of the texts: `am_scores` plus hotwords; with `own_rescore` that times the "
    "model's weight of CTC, plus the log probability by the attention decoders",
    am_scores="log probability of the text given the audio, by CTC",
    lm_scores="0",
    word_confidences="geometric mean of the probabilities of the word's units, by CTC",
)


@dataclass(frozen=True, kw_only=True)
class WenetOptions:
    own_rescore: bool = option(
        False,
        "score the final hypotheses again with the model's own attention decoders",
        otherwise="true with wenet",
        decoders=("wenet",),
        is_of_final_text=True,
    )


FAMILY = Family(
    name="wenet",
    title="WeNet",
    components=search_components(
        (*OFFLINE, *LIVE),
        "WeNet",
        "frames",
        (_FRAMES, _LENS),
        (
            _FRAMES,
            _LENS,
            TensorInfo("speech_probs", "FP32", (-1,), "as `ctc_streaming_encoder`"),
            TensorInfo("frame_samples", "INT32", (1,), "samples of a frame"),
        ),
        _HYPOTHESES,
        PACKAGE,
        {RESCORE: bool},
    ),
    models=(
        ModelKind(
            name="wenet",
            title="WeNet",
            components=(*OFFLINE, *LIVE),
            form="a folder of WeNet's own exports",
            help="the same with a U2 or U2++ model, as WeNet itself exports it",
            check="conch.families.wenet.folder:check_wenet",
            networks="conch.families.wenet.folder:networks_of_wenet",
        ),
    ),
    decoders=(
        Decoder(
            name="wenet",
            components=OFFLINE,
            live=LIVE,
            live_when={"decoder": "wenet"},
            default_when=DEFAULT_WHEN,
            detects_language=True,
            defaults={"beam_size": 16, RESCORE: True},
        ),
    ),
    options=WenetOptions,
    rules=(rescoring_takes_a_weight("wenet"),),
    warm_ups=({"decoder": "wenet"}, {"decoder": "wenet", "mode": "streaming"}),
    hooks=FamilyHooks(
        recognisers={"wenet": "conch.families.wenet.recogniser:WENET"},
        first_passes={"wenet": "conch.families.wenet.recogniser:WenetFirstPass"},
    ),
)
