"""Open a network on ONNX Runtime."""

import ctypes
from pathlib import Path
from typing import Any

import onnxruntime

from conch.component.parameters import existing
from conch.wire.errors import ConfigError

CPU = "CPUExecutionProvider"
PR_SET_THP_DISABLE = 41
"""`prctl`'s number of the switch for huge pages."""


def session_options(threads: int, *, keeps_memory: bool = True) -> onnxruntime.SessionOptions:
    """Return the options of a session with `threads` CPU threads for one call.

    Without `keeps_memory`, no block of memory is kept for each shape of a batch: 40 MB for chunks,
    80 MB and more for segments.
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    # Threads that spin after a call would take the cores from the other components.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.enable_mem_pattern = keeps_memory
    options.log_severity_level = 3  # errors only
    return options


def run_options() -> onnxruntime.RunOptions:
    """Return the options of a run that gives its memory back.

    The activations of a long segment, 200 MB, would be kept for the next one.
    """
    options = onnxruntime.RunOptions()
    options.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
    return options


def open_network(
    what: str,
    path: Path,
    options: onnxruntime.SessionOptions,
    provider: str | tuple[str, dict[str, Any]] = CPU,
    content: bytes | None = None,
) -> onnxruntime.InferenceSession:
    """Open the network of a file, or of `content` in place of it; `what` names it in errors.

    From then on this process has huge pages, if the kernel gives them on request: each call
    allocates megabytes. `conch.launcher.guard` switches them off for all others.
    """
    source = existing(path, what) if content is None else content
    ctypes.CDLL(None).prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0)
    try:
        return onnxruntime.InferenceSession(source, options, providers=[provider])
    except Exception as error:  # onnxruntime's own exceptions share no public base
        raise ConfigError(f"cannot load {what} {path}: {error}") from error
