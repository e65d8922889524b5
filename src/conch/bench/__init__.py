"""Benchmarks: how fast, how right and how large a running Conch is, next to other ways to do it."""

import importlib.util

from conch.errors import BenchError
from conch.packaged import install

COMPARING = ("jiwer", "whisper_normalizer")
"""Packages that compare texts."""


def require(*modules: str) -> None:
    """Check, before anything is measured, that optional packages are there.

    Raises:
        BenchError: one is missing; the message says what to install.
    """
    if lacking := missing(*modules):
        raise BenchError(f"this benchmark needs {' and '.join(lacking)}: {install('bench')}")


def missing(*modules: str) -> list[str]:
    """Return those of the top-level modules that are not installed."""
    return [module for module in modules if importlib.util.find_spec(module) is None]
