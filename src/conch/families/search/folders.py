"""The folder of an export that the parameters of a component name."""

from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeVar

from conch.catalogue.checks import UnfitModelError
from conch.catalogue.exports import check_precision
from conch.wire.errors import ConfigError

Folder = TypeVar("Folder")


class FolderConfig(Protocol):
    """Parameters that name a folder."""

    @property
    def model(self) -> str: ...

    @property
    def precision(self) -> str: ...


def folder_of(
    config: FolderConfig, flag: str, problem: str, read: Callable[[Path, str], Folder]
) -> Folder:
    """Return what `read` finds in the folder that the parameter `model` names.

    Args:
        config: Of the component.
        flag: That of `conch serve`, which sets the parameter, without dashes.
        problem: What a folder is that `read` refuses, for the error.
        read: Takes the folder and the precision.

    Raises:
        ConfigError: there is none, or it is no complete model of its kind.
    """
    if not config.model:
        raise ConfigError(f"parameter 'model' is empty: conch serve --{flag} FOLDER sets it")
    check_precision(config.precision)
    try:
        return read(Path(config.model), config.precision)
    except UnfitModelError as error:
        raise ConfigError(f"{config.model} {problem}: {error}") from None
