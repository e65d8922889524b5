"""Find the weights inside installed packages, and tell how to install packages."""

import importlib.util
from pathlib import Path

from conch.wire.errors import ConfigError


def install(extra: str) -> str:
    """Return how to install an extra of Conch, which is on no package index."""
    return f"in a checkout of Conch: pip install -c constraints.txt -e '.[{extra}]'"


def packaged(what: str, package: str, distribution: str, *parts: str) -> Path:
    """Return the path of a file or folder inside a package, without importing it.

    Args:
        what: the file, in the words of the error.
        package: the package to look in.
        distribution: pip's name of the package.
        parts: path inside the package.

    Raises:
        ConfigError: the package is not installed.
    """
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ConfigError(f"no {what}: set 'model', or pip install {distribution}")
    return Path(spec.submodule_search_locations[0], *parts)
