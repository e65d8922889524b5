"""Peak memory and CPU of a server: all processes of its tree, shared pages counted once.

A Triton server is a process, and one more for each Python model. They share libraries and a region
of memory, so the sum of resident sizes (RSS) counts pages several times. The kernel's proportional
set size (PSS) gives each process its share of a page.

A thread takes the sum of these once a second. It costs 15 ms of a core: the kernel walks every page
table.
"""

import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

INTERVAL_S = 1.0
MB = 1e6


@dataclass(frozen=True, slots=True)
class Memory:
    """Memory of a process tree at one time, in MB of 10⁶ bytes."""

    total_mb: float = 0.0
    by_process_mb: Mapping[str, float] = field(default_factory=dict)
    """Memory by process name; a Python model's process has the model's name."""


class MemorySampler:
    """Sampler of a process tree while a block runs; `peak` is the largest sample so far."""

    def __init__(
        self, root: int, *, with_root: bool = True, interval_s: float = INTERVAL_S
    ) -> None:
        self._root = root
        self._with_root = with_root
        self._interval_s = interval_s
        self._peak = Memory()
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="memory sampler", daemon=True)

    def __enter__(self) -> "MemorySampler":
        self.sample()
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stopped.set()
        self._thread.join()

    def forget(self) -> None:
        with self._lock:
            self._peak = Memory()

    def peak(self) -> Memory:
        """Take another sample and return the largest so far."""
        self.sample()
        with self._lock:
            return self._peak

    def cpu_s(self) -> dict[str, float]:
        return cpu_by_process(self._root)

    def cpu_since(self, before: Mapping[str, float]) -> dict[str, float]:
        return cpu_since(self._root, before)

    def _run(self) -> None:
        while not self._stopped.wait(self._interval_s):
            self.sample()

    def sample(self) -> None:
        pids = process_tree(self._root)
        now = tree_memory(pids if self._with_root else pids[1:])
        with self._lock:
            if now.total_mb > self._peak.total_mb:
                self._peak = now


def process_tree(root: int) -> list[int]:
    try:
        return [root, *(child.pid for child in psutil.Process(root).children(recursive=True))]
    except psutil.NoSuchProcess:
        return [root]


def cpu_by_process(root: int) -> dict[str, float]:
    """Return the CPU seconds of the living descendants of a process, by name."""
    return _by_process(process_tree(root)[1:], lambda process: sum(process.cpu_times()[:2]))


def cpu_since(root: int, before: Mapping[str, float]) -> dict[str, float]:
    used = {name: now - before.get(name, 0.0) for name, now in cpu_by_process(root).items()}
    return {name: round(seconds, 3) for name, seconds in used.items() if seconds > 0}


def tree_memory(pids: Iterable[int]) -> Memory:
    """Return the sum of the processes' PSS; a process that has ended counts nothing."""
    exact = _by_process(pids, lambda process: process.memory_full_info().pss / MB)
    by_process = {name: round(pss_mb, 1) for name, pss_mb in exact.items()}
    return Memory(round(sum(by_process.values()), 1), by_process)


def _by_process(
    pids: Iterable[int], value_of: Callable[[psutil.Process], float]
) -> dict[str, float]:
    values: dict[str, float] = {}
    for pid in pids:
        with suppress(psutil.Error):  # it has ended
            process = psutil.Process(pid)
            value, name = value_of(process), _name(process)
            values[name] = values.get(name, 0.0) + value
    return values


def _name(process: psutil.Process) -> str:
    arguments = process.cmdline()
    # A Python model's process is started as `triton_python_backend_stub …/vad/1/model.py …`.
    for argument in arguments[1:]:
        path = Path(argument)
        if path.name == "model.py":
            return path.parent.parent.name
    return Path(arguments[0]).name if arguments and arguments[0] else str(process.name())
