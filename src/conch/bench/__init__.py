"""Benchmarks: how fast, how right and how large a running Conch is, for who sizes a machine."""

import importlib.util

from conch.packaged import install
from conch.wire.errors import BenchError

COMPARING = ("jiwer", "whisper_normalizer")
"""Packages that compare texts."""


def require(*modules: str, extra: str = "bench") -> None:
    """Check, before anything is measured, that optional packages are there.

    Args:
        modules: by the names that they are imported by.
        extra: of Conch, which brings them.

    Raises:
        BenchError: one is missing; the message says what to install.
    """
    if lacking := missing(*modules):
        raise BenchError(f"this benchmark needs {' and '.join(lacking)}: {install(extra)}")


def missing(*modules: str) -> list[str]:
    """Return those of the top-level modules that are not installed."""
    return [module for module in modules if importlib.util.find_spec(module) is None]
