"""Find the weights inside installed packages, and tell how to install packages."""

import hashlib
import importlib.util
import re
import sys
from collections.abc import Mapping
from functools import cache
from importlib import metadata
from pathlib import Path

from conch.wire.errors import ConfigError

_BLOCK_BYTES = 1 << 20

SERVER_PYTHONS = ((3, 11), (3, 12))
"""What the server runs on, and what constraints.txt is made for."""


def install(extra: str, python: tuple[int, int] = sys.version_info[:2]) -> str:
    """Return how to install what an extra of Conch brings; Conch is on no package index."""
    if python in SERVER_PYTHONS:
        return f"in a checkout of Conch: pip install -c constraints.txt -e '.[{extra}]'"
    if extra == "server":
        return f"with Python 3.11 or 3.12, {install(extra, SERVER_PYTHONS[0])}"
    return f"in a checkout of Conch: pip install -e '.[{extra}]'"


def extra_with(module: str) -> str | None:
    """Return the extra of Conch that installs a top-level module; None where none does."""
    for requirement in metadata.requires("conch") or ():
        found = re.match(r"([\w.-]+).*\bextra == ['\"](\w+)", requirement)
        if found and found[1].replace("-", "_").lower() == module.lower():
            return found[2]
    return None


def packaged(
    what: str, package: str, distribution: str, folder: str, sha256: Mapping[str, str]
) -> Path:
    """Return a folder inside a package, which is not imported for it.

    Args:
        what: names it in errors.
        package: to look in.
        distribution: what pip calls the package.
        folder: path inside the package.
        sha256: of each file that is used, in hexadecimal digits, by its path in the folder.

    Raises:
        ConfigError: the package is not installed, or a file is missing or not the expected one.
    """
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ConfigError(f"no {what}: set 'model', or have {distribution}, {install('server')}")
    path = Path(spec.submodule_search_locations[0], folder)
    for name, expected in sha256.items():
        _check(path / name, f"{folder}/{name} of the package {distribution}", expected)
    return path


def _check(path: Path, what: str, expected: str) -> None:
    try:
        found = _sha256_of(path)
    except OSError as error:
        raise ConfigError(f"{what} cannot be read: {error}") from None
    if found != expected:
        raise ConfigError(
            f"{what} is not the file that Conch was tested with: its sha256 is {found}, expected "
            f"{expected}; install the version that constraints.txt names, or set 'model' to "
            "weights of your own"
        )


@cache
def _sha256_of(path: Path) -> str:
    """Return the digest of a file, in hexadecimal digits; of 75 MB in a tenth of a second."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()
