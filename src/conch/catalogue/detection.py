"""Find out what kind of model a folder holds."""

from pathlib import Path

from conch.catalogue.checks import Found, UnfitModelError
from conch.catalogue.kinds import KINDS, Kind
from conch.catalogue.places import find, folder_of_name
from conch.wire.errors import ConfigError


def detect(asked: str) -> tuple[Kind, Path, Found]:
    """Return the kind of a model, its absolute folder, and what its files say of it.

    Args:
        asked: Name of a known model or of a folder of the user's models, or path of a folder.

    Raises:
        ConfigError: there is no such folder, or it holds no complete model of any kind; the message
            says what each kind lacks.
    """
    for kind in KINDS.values():
        if kind.known_as(asked):
            folder = find(kind, asked)
            return kind, folder, kind.check(folder)
    try:
        folder, lacking = folder_of_name(asked), []
    except OSError as error:
        raise ConfigError(
            f"no folder {asked!r:.200}, nor a model of that name (conch models lists them): "
            f"{error.strerror or 'not found'}"
        ) from None
    for kind in KINDS.values():
        try:
            return kind, folder, kind.check(folder)
        except UnfitModelError as error:
            lacking.append(f"  {kind.title}: {error}")
    raise ConfigError(
        "\n".join([f"{folder} holds no complete model that Conch serves. As", *lacking])
    )
