"""Manifests of recordings and error rates: what compares recognised texts."""

import importlib.util

from conch.packaged import install
from conch.wire.errors import BenchError

COMPARING = ("jiwer", "wetext", "whisper_normalizer")


def require(*modules: str, extra: str = "bench") -> None:
    """Check, before a measurement, that an extra's optional packages are installed."""
    if lacking := missing(*modules):
        raise BenchError(f"this benchmark needs {' and '.join(lacking)}: {install(extra)}")


def missing(*modules: str) -> list[str]:
    """Return those of the top-level modules that are not installed."""
    return [module for module in modules if importlib.util.find_spec(module) is None]
