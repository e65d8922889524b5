"""Open a network on ONNX Runtime."""

import ctypes
import mmap
import os
from pathlib import Path
from typing import Any

import onnxruntime

from conch.component.parameters import existing
from conch.wire.errors import ConfigError

CPU = "CPUExecutionProvider"
PR_SET_THP_DISABLE = 41
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
LARGEST_KEPT_BYTES = 32 << 20
"""Largest block that glibc keeps, which is the most that it allows."""
MOST_KEPT_BYTES = 256 << 20
"""Free memory at the end of the heap, of which glibc gives back what is more."""


def open_network(
    what: str,
    path: Path,
    threads: int,
    provider: str | tuple[str, dict[str, Any]] = CPU,
    content: bytes | None = None,
    *,
    is_optimised: bool = True,
) -> onnxruntime.InferenceSession:
    """Open the network of a file, or of `content` in place of it, with CPU threads for one call.

    `what` names it in errors. Without `is_optimised` it has the inputs and outputs of the file.

    Each call allocates megabytes, and new pages would cost a sixth of a call. So from then on this
    process has huge pages, if the kernel gives them on request (`conch.launcher.guard` switches
    them off for all others). glibc keeps what a call frees until `conch.triton.memory` gives it
    back.
    """
    source = existing(path, what) if content is None else content
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    # Threads that spin after a call would take the cores from the other components.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    # The arena would keep the most that any call took.
    options.enable_cpu_mem_arena = options.enable_mem_pattern = False
    options.log_severity_level = 3  # errors only
    if not is_optimised:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0)
    libc.mallopt(M_MMAP_THRESHOLD, LARGEST_KEPT_BYTES)
    libc.mallopt(M_TRIM_THRESHOLD, MOST_KEPT_BYTES)
    if beside := _files_beside(path, is_changed=content is not None):
        options.add_external_initializers_from_files_in_memory(
            [*beside], [*beside.values()], [*map(len, beside.values())]
        )
    try:
        return onnxruntime.InferenceSession(source, options, providers=[provider])
    except Exception as error:  # onnxruntime's own exceptions share no public base
        raise ConfigError(f"cannot load {what} {path}: {error}") from error


def _files_beside(path: Path, *, is_changed: bool) -> dict[str, mmap.mmap]:
    """Return the files beside a network, which may be its weights, if ONNX Runtime finds them not.

    It knows no folder of one that `is_changed`, and follows no link out of a folder, as the cache
    of Hugging Face has them.
    """
    files: dict[str, mmap.mmap] = {}
    items = [*path.parent.iterdir()] if os.access(path.parent, os.R_OK) else []
    if is_changed or any(map(Path.is_symlink, items)):
        for item in items:
            if os.access(item, os.R_OK) and item.is_file() and item.stat().st_size:
                with item.open("rb") as file:
                    files[item.name] = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    return files
