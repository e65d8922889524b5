"""Load a model on CTranslate2."""

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from conch.component.parameters import NiceConfig, be_nice
from conch.wire.errors import ConfigError

Model = TypeVar("Model")

_M_ARENA_MAX = -8
"""`mallopt`'s number of the most heaps."""
_CUDA_NEEDS = "NVIDIA's driver and cuBLAS 12 (libcublas.so.12 where the loader finds it)"


@dataclass(frozen=True, slots=True, kw_only=True)
class CTranslate2Config(NiceConfig):
    compute_type: str = "auto"
    """Compute type of CTranslate2; auto is an int8 type on cpu and float16 on cuda."""


def load_ctranslate2(
    model_class: Callable[..., Model],
    folder: Path,
    config: CTranslate2Config,
    compute_type: str,
    warm_up: Callable[[Model], Any],
) -> Model:
    """Return a loaded model after a first use by `warm_up`: CTranslate2 opens cuBLAS there.

    From then on this process has one heap. CTranslate2 calls a model on a thread of its own, and
    glibc would give that thread a heap whose freed memory is lost to others: 50 MB.
    """
    ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)
    be_nice(config.nice)
    try:
        model = model_class(
            str(folder),
            device=config.device,
            device_index=config.device_index,
            compute_type=compute_type,
            intra_threads=config.threads,
        )
        if config.device != "cpu":
            warm_up(model)
    except (RuntimeError, ValueError) as error:
        hint = "" if config.device == "cpu" else f"; on a GPU it needs {_CUDA_NEEDS}"
        raise ConfigError(
            f"cannot load {folder} on {config.device} with compute type {compute_type}: "
            f"{error}{hint}"
        ) from error
    return model
