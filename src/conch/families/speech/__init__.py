"""Families that speak: an acoustic model, once a sentence, and a vocoder for stretches of it."""

from conch.families.family import ComponentInfo, Step, WeightsPackage

_STEPS: dict[Step, str] = {"voice": "Acoustic model", "sound": "Vocoder"}


def speaking_components(*names: str, package: WeightsPackage) -> tuple[ComponentInfo, ...]:
    """Return an acoustic model and a vocoder, in the order of `names`."""
    return tuple(
        ComponentInfo(name=name, title=title, step=step, is_one_by_one=True, package=package)
        for name, (step, title) in zip(names, _STEPS.items(), strict=True)
    )
