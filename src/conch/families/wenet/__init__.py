"""WeNet's U2 and U2++: encoders, and searches whose texts an attention decoder scores."""

from dataclasses import dataclass

from conch.families.family import Decoder, Family, ModelKind, WeightsPackage
from conch.families.options import option
from conch.families.search import DEFAULT_WHEN, rescoring_takes_a_weight, search_components

OFFLINE = ("wenet_encoder", "wenet_decoder")
LIVE = ("wenet_streaming_encoder", "wenet_streaming_decoder")
PACKAGE = WeightsPackage("WeNet model", "", "", "conch serve --wenet FOLDER")
FRAMES = "frames"
RESCORE = "own_rescore"


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
        *search_components(OFFLINE, "WeNet", PACKAGE),
        *search_components(LIVE, "WeNet, live", PACKAGE, is_stream=True),
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
            recogniser="conch.families.wenet.recogniser:WENET",
            first_pass="conch.families.wenet.recogniser:WenetFirstPass",
            live_when={"decoder": "wenet"},
            default_when=DEFAULT_WHEN,
            detects_language=True,
            defaults={"beam_size": 16, RESCORE: True},
        ),
    ),
    options=WenetOptions,
    rules=(rescoring_takes_a_weight("wenet"),),
    warm_ups=({"decoder": "wenet"}, {"decoder": "wenet", "mode": "streaming"}),
)
