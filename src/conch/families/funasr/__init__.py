"""FunASR's models: one component each, from the waveform to the text."""

from conch.families.family import (
    ComponentInfo,
    Decoder,
    Family,
    ModelKind,
    WeightsPackage,
)
from conch.families.options import Above, Other, Rule
from conch.families.search import (
    DEFAULT_WHEN,
    live_takes_the_vad,
    rescoring_takes_a_weight,
    search_components,
    takes_no_names,
)

PARAFORMER, SENSE_VOICE, ONLINE = "paraformer", "sensevoice", "paraformer_online"
LIVE = (f"{ONLINE}_encoder", f"{ONLINE}_decoder")
UNITS = "units"
"""The tensor that goes from the encoder of live audio to its decoder."""
LANGUAGES = ("zh", "en", "yue", "ja", "ko")
"""Languages of SenseVoice."""

_ONLINE_PACKAGE = WeightsPackage(
    "online Paraformer", "", "", "conch serve --paraformer-online FOLDER"
)

FAMILY = Family(
    name="funasr",
    title="FunASR",
    components=(
        ComponentInfo(
            name=PARAFORMER,
            title="Paraformer",
            step="decode",
            is_one_by_one=True,
            package=WeightsPackage(PARAFORMER, "", "", f"conch serve --{PARAFORMER} FOLDER"),
        ),
        ComponentInfo(
            name=ONLINE,
            title="Paraformer, online",
            step="decode",
            is_one_by_one=True,
            package=_ONLINE_PACKAGE,
        ),
        *search_components(LIVE, "Paraformer, live", _ONLINE_PACKAGE, is_stream=True),
        ComponentInfo(
            name=SENSE_VOICE,
            title="SenseVoice",
            step="decode",
            is_one_by_one=True,
            package=WeightsPackage(SENSE_VOICE, "", "", f"conch serve --{SENSE_VOICE} FOLDER"),
        ),
    ),
    models=(
        ModelKind(
            name=PARAFORMER,
            title="Paraformer",
            components=(PARAFORMER,),
            form="a folder of FunASR or sherpa-onnx",
            help="the same with a Paraformer of FunASR",
            check="conch.families.funasr.folder:check_paraformer",
            networks="conch.families.funasr.folder:networks_of_paraformer",
        ),
        ModelKind(
            name=ONLINE,
            title="online Paraformer",
            components=(ONLINE, *LIVE),
            form="a folder of FunASR or sherpa-onnx",
            help="the same with an online one, which hears live audio too",
            check="conch.families.funasr.folder:check_online_paraformer",
            networks="conch.families.funasr.folder:networks_of_online_paraformer",
        ),
        ModelKind(
            name=SENSE_VOICE,
            title="SenseVoice",
            components=(SENSE_VOICE,),
            form="a folder of FunASR or sherpa-onnx",
            help="the same with a SenseVoice of FunASR",
            check="conch.families.funasr.folder:check_sense_voice",
            networks="conch.families.funasr.folder:networks_of_sense_voice",
        ),
    ),
    decoders=(
        Decoder(
            name=PARAFORMER,
            components=(PARAFORMER,),
            recogniser="conch.families.funasr.recogniser:PARAFORMER_RECOGNISER",
            default_when=DEFAULT_WHEN,
            detects_language=True,
            is_rolling=True,
        ),
        Decoder(
            name=ONLINE,
            components=(ONLINE,),
            live=LIVE,
            recogniser="conch.families.funasr.recogniser:ONLINE_RECOGNISER",
            first_pass="conch.families.funasr.recogniser:OnlineFirstPass",
            live_when={"decoder": ONLINE},
            default_when=DEFAULT_WHEN,
            detects_language=True,
        ),
        Decoder(
            name=SENSE_VOICE,
            components=(SENSE_VOICE,),
            recogniser="conch.families.funasr.recogniser:SENSE_VOICE_RECOGNISER",
            default_when={**DEFAULT_WHEN, "language": ("auto", *LANGUAGES)},
            follows=("itn",),
            detects_language=True,
            languages=LANGUAGES,
            is_rolling=True,
            presets={"balanced": {"beam_size": 8}, "best": {"beam_size": 16}},
        ),
    ),
    rules=(
        Rule(
            {"beam_size": Above(1), "decoder": (PARAFORMER, ONLINE)},
            "option 'beam_size' takes 1 with decoder {decoder}, which finds one text; sent: "
            "{beam_size}",
        ),
        *takes_no_names(ONLINE, "which has no search"),
        Rule(
            {"rescore": True, "decoder": (PARAFORMER, ONLINE)},
            "option 'rescore' does not go with decoder {decoder}, which finds one text",
        ),
        live_takes_the_vad(ONLINE),
        rescoring_takes_a_weight(SENSE_VOICE),
        Rule(
            {"language": Other(("auto", *LANGUAGES)), "decoder": SENSE_VOICE},
            f"option 'language' takes auto, {', '.join(LANGUAGES)} with decoder sensevoice; sent: "
            "{language!r:.40}",
        ),
    ),
    warm_ups=(
        *({"decoder": name} for name in (PARAFORMER, ONLINE, SENSE_VOICE)),
        {"decoder": ONLINE, "mode": "streaming"},
    ),
)
