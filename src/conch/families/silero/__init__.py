"""Silero VAD: where speech is, and the options that cut audio by it."""

from dataclasses import dataclass

from conch.families.family import ComponentInfo, Family, FamilyHooks, Need, WeightsPackage
from conch.families.options import GIVEN, Below, Other, Rule, option

PACKAGE = WeightsPackage("VAD model", "silero_vad", "silero-vad")

VAD = ComponentInfo(
    name="vad", title="Speech", step="find speech", is_one_by_one=True, package=PACKAGE
)


@dataclass(frozen=True, kw_only=True)
class SileroOptions:
    vad: bool = option(
        True,
        "find the speech first; false decodes all of a recording, and leaves live pauses to the "
        "CTC model",
    )
    vad_threshold: float = option(
        0.5, "probability of speech at which a stretch begins", low=0.01, high=0.99
    )
    vad_min_speech_ms: int = option(
        100, "shorter stretches of speech are dropped", low=0, high=10_000
    )
    vad_min_silence_ms: int = option(
        500, "silence that ends a stretch of speech", low=32, high=10_000
    )
    vad_pad_ms: int = option(300, "audio kept on each side of the speech", low=0, high=2_000)
    vad_state: str = option(
        "",
        "the VAD's state at the start of a piece of a recording, in base64; conch bulk sends it",
    )


_PIECE = (
    "option 'vad_state' is for a piece of a recording: it goes with vad=true and channels=mix, and "
    "not with live audio"
)

FAMILY = Family(
    name="silero",
    title="Silero VAD",
    components=(VAD,),
    options=SileroOptions,
    rules=(
        Rule({"vad_state": GIVEN, "mode": Other("offline")}, _PIECE),
        Rule({"vad_state": GIVEN, "vad": False}, _PIECE),
        Rule({"vad_state": GIVEN, "channels": Other("mix")}, _PIECE),
        Rule(
            {"vad": True, "max_segment_s": Below("vad_pad_ms", factor=4 / 1000)},
            "option 'max_segment_s' takes at least four times vad_pad_ms ({vad_pad_ms} ms); "
            "sent: {max_segment_s:g}",
        ),
    ),
    needs=(Need(components=("vad",), when={"vad": True}),),
    hooks=FamilyHooks(find_speech="conch.families.silero.finder:find_speech"),
)
