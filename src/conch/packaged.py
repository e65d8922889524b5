"""Find the weights inside installed packages, and say how to install packages."""

import hashlib
import re
import sys
from collections.abc import Mapping
from functools import cache
from importlib import metadata
from pathlib import Path

from conch.families.family import KnownModel, WeightsPackage
from conch.wire.errors import ConfigError

_BLOCK_BYTES = 1 << 20

SERVER_PYTHONS = ((3, 11), (3, 12))
"""Versions of Python that the server runs on, and that constraints.txt is made for."""


def install(extra: str, python: tuple[int, int] = sys.version_info[:2]) -> str:
    """Return how to install what an extra of Conch brings; Conch is on no package index."""
    if extra == "bulk":
        return "in a checkout of Conch: make bulk-env"
    if python in SERVER_PYTHONS:
        return f"in a checkout of Conch: pip install -c constraints.txt -e '.[{extra}]'"
    if extra == "server":
        return f"with Python 3.11 or 3.12, {install(extra, SERVER_PYTHONS[0])}"
    return f"in a checkout of Conch: pip install -e '.[{extra}]'"


def extra_with(module: str) -> str | None:
    """Return the extra of Conch that installs a top-level module; None where none does."""
    for requirement in metadata.requires("conch") or ():
        match = re.match(r"([\w.-]+).*\bextra == ['\"](\w+)", requirement)
        if match and match[1].replace("-", "_").lower() == module.lower():
            return match[2]
    return None


def missing(package: WeightsPackage) -> str:
    """Return what to do where a package of weights is not installed."""
    how = package.command or install("server")
    if package.is_of_user:
        return f"no {package.what} ships with Conch: {how}"
    act = "fetch it" if package.fetched else f"install {package.distribution}"
    return f"no {package.what}: set 'model', or {act}: {how}"


def how_to_get(model: KnownModel) -> str:
    """Return the command that brings a model to this machine."""
    return f"conch models get {model.name}" if model.requirements else install("server")


def packaged(package: WeightsPackage, folder: str, sha256: Mapping[str, str]) -> Path:
    """Return a folder inside a package, which is not imported for it.

    `sha256` has the hexadecimal digest of each file that is used, by its path in the folder. Raise
    a ConfigError if the package is not installed, or a file is missing or not the expected one.
    """
    if package.folder is None:
        raise ConfigError(missing(package))
    path = package.folder / folder
    for name, expected in sha256.items():
        _check(path / name, package, Path(folder, name), expected)
    return path


def _check(path: Path, package: WeightsPackage, name: Path, expected: str) -> None:
    what = f"{name} of the package {package.distribution}"
    try:
        digest = _digest_of(path)
    except OSError as error:
        raise ConfigError(f"{what} cannot be read: {error}") from None
    if digest != expected:
        how = package.command or "install the version that constraints.txt names"
        raise ConfigError(
            f"{what} is not the file that Conch was tested with: its sha256 is {digest}, expected "
            f"{expected}; {how}, or set 'model' to weights of your own"
        )


def sha256_of(path: Path) -> str:
    """Return the digest of a file, in hexadecimal digits; of 75 MB in a tenth of a second."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()


_digest_of = cache(sha256_of)
"""Digests by path, kept because installed packages do not change while a program runs."""
