"""Benchmarks: how fast, how right and how large a running Conch is, next to other ways to do it."""

import importlib.util

from conch.packaged import install
from conch.wire.errors import BenchError


def require(*modules: str) -> None:
    """Check, before anything is measured, that optional packages are there.

    Raises:
        BenchError: one is missing; the message says what to install.
    """
    missing = [module for module in modules if importlib.util.find_spec(module) is None]
    if missing:
        raise BenchError(f"this benchmark needs {' and '.join(missing)}: {install('bench')}")
