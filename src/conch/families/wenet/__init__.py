"""WeNet's U2 and U2++: encoders, and searches whose texts an attention decoder scores."""

from dataclasses import dataclass

from conch.families.family import (
    ComponentInfo,
    Decoder,
    Family,
    FamilyHooks,
    ModelKind,
    TensorInfo,
    WeightsPackage,
)
from conch.families.options import option
from conch.families.search import (
    BEHIND,
    DEFAULT_WHEN,
    LIVE_PARAMETERS,
    PARAMETERS,
    PIECE,
    SEGMENT,
    frames,
    hypotheses,
    live_hypotheses,
    rescoring_takes_a_weight,
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
    components=(
        ComponentInfo(
            name=OFFLINE[0],
            role="waveform to frames",
            title="WeNet",
            step="encode",
            inputs=(SEGMENT,),
            outputs=(_FRAMES, _LENS),
            package=PACKAGE,
        ),
        ComponentInfo(
            name=OFFLINE[1],
            role="frames to text",
            title="WeNet",
            step="decode",
            inputs=frames(FRAMES),
            outputs=_HYPOTHESES,
            parameters={**PARAMETERS, RESCORE: bool},
            package=PACKAGE,
        ),
        ComponentInfo(
            name=LIVE[0],
            role="live audio to frames",
            title="WeNet, live",
            step="encode",
            inputs=(PIECE,),
            outputs=(
                _FRAMES,
                _LENS,
                TensorInfo("speech_probs", "FP32", (-1,), "as `ctc_streaming_encoder`"),
                TensorInfo("frame_samples", "INT32", (1,), "samples of a frame"),
                BEHIND,
            ),
            is_stream=True,
            package=PACKAGE,
        ),
        ComponentInfo(
            name=LIVE[1],
            role="live frames to the text so far",
            title="WeNet, live",
            step="decode",
            inputs=frames(FRAMES, is_live=True),
            outputs=live_hypotheses(OFFLINE[1], _HYPOTHESES),
            parameters={**LIVE_PARAMETERS, RESCORE: bool},
            is_stream=True,
            package=PACKAGE,
        ),
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
