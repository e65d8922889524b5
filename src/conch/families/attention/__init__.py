"""Families whose decoder attends to hidden states, Whisper and Moonshine: their components."""

from conch.families.family import ComponentInfo, WeightsPackage


def attention_components(
    names: tuple[str, str], title: str, package: WeightsPackage, in_flight: int = 0
) -> tuple[ComponentInfo, ComponentInfo]:
    """Return an encoder and a decoder, in the order of `names`."""
    encoder, decoder = names
    return (
        ComponentInfo(
            name=encoder, title=title, step="encode", is_one_by_one=True, package=package
        ),
        ComponentInfo(
            name=decoder,
            title=title,
            step="decode",
            # Its work hangs on more than its input: it decodes up to hundreds of tokens, where 40
            # are usual, and again for a text that loops, or that comes from the prompt alone.
            hang_factor=60.0,
            in_flight=in_flight,
            package=package,
        ),
    )
