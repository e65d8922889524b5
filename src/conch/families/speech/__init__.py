"""Families that speak: an acoustic model, once a sentence, and a vocoder for stretches of it."""

from conch.families.family import ComponentInfo, WeightsPackage


def speaking_components(
    acoustic: str, vocoder: str, package: WeightsPackage
) -> tuple[ComponentInfo, ComponentInfo]:
    return (
        ComponentInfo(
            name=acoustic,
            title="Acoustic model",
            step="voice",
            is_one_by_one=True,
            package=package,
        ),
        ComponentInfo(
            name=vocoder, title="Vocoder", step="sound", is_one_by_one=True, package=package
        ),
    )
