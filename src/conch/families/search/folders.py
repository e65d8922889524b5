"""The folder of an export, and the parameters that name it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from conch.catalogue.checks import UnfitModelError
from conch.catalogue.exports import check_precision
from conch.component.parameters import DeviceConfig
from conch.wire.errors import ConfigError

Folder = TypeVar("Folder")


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderConfig(DeviceConfig):
    precision: str = "float32"
    """Files that are taken where there are several: float32 or int8."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingsConfig(FolderConfig):
    max_padding: float = 0.2
    """Largest share of padding in a row of a batch. Rows that differ more are encoded apart."""
    max_batch_s: float = 16.0
    """Largest batch in seconds of audio, with padding; a longer row is encoded alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveConfig(FolderConfig):
    stream_ttl_s: float = 90.0
    """Seconds without a chunk after which a stream expires."""


class NamesFolder(Protocol):
    @property
    def model(self) -> str: ...

    @property
    def precision(self) -> str: ...


def folder_of(
    config: NamesFolder, flag: str, problem: str, read: Callable[[Path, str], Folder]
) -> Folder:
    """Return what `read` finds in the folder that the parameter `model` names.

    `read` takes the folder and the precision. `flag` is that of `conch serve`, which sets the
    parameter, without dashes; `problem` says what a folder is that `read` refuses.
    """
    if not config.model:
        raise ConfigError(f"parameter 'model' is empty: conch serve --{flag} FOLDER sets it")
    check_precision(config.precision)
    try:
        return read(Path(config.model), config.precision)
    except UnfitModelError as error:
        raise ConfigError(f"{config.model} {problem}: {error}") from None
