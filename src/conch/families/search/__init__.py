"""Families whose search reads an encoder's frames, CTC and transducers: components and rules."""

from conch.families.family import ComponentInfo, Step, WeightsPackage
from conch.families.options import GIVEN, Rule

DEFAULT_WHEN = {"task": "transcribe", "languages": "", "prompt": ""}
"""The requests that a model of the user's answers where they choose no decoder."""

ENDS_TURN = "ends_turn"
"""Output of a decoder of live audio whose model says when the speaker has finished."""


def search_components(
    names: tuple[str, str],
    title: str,
    package: WeightsPackage | None = None,
    *,
    is_stream: bool = False,
) -> tuple[ComponentInfo, ...]:
    """Return an encoder and a decoder, in the order of `names`."""
    steps: tuple[Step, ...] = ("encode", "decode")
    return tuple(
        ComponentInfo(name=name, title=title, step=step, is_stream=is_stream, package=package)
        for name, step in zip(names, steps, strict=True)
    )


def rescoring_takes_a_weight(decoder: str) -> Rule:
    """Return the rule of a decoder for models whose weights nobody has tuned."""
    return Rule(
        {"rescore": True, "decoder": decoder, "lm_weight": None},
        f"option 'rescore' with decoder {decoder} takes lm_weight too: no weight is tuned for your "
        "model",
    )


def takes_no_names(decoder: str, why: str) -> tuple[Rule, ...]:
    """Return the rules of a decoder whose words no request can prefer."""
    return tuple(
        Rule(
            {option: GIVEN, "decoder": decoder},
            f"option '{option}' does not go with decoder {decoder}, {why}",
        )
        for option in ("names", "hotwords")
    )


def live_takes_the_vad(decoder: str) -> Rule:
    """Return the rule of a decoder whose live encoder does not find speech."""
    return Rule(
        {"vad": False, "decoder": decoder, "mode": ("streaming", "two_pass")},
        f"option 'vad' takes true for live audio with decoder {decoder}, which does not say where "
        "speech is",
    )
