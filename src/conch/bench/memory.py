"""Peak memory and CPU of a server: all processes of its tree, shared pages counted once.

A Triton server is one process per Python model plus the server itself, and they share libraries
and a shared-memory region. Adding up resident sizes (RSS) counts those pages once per process. The
kernel's proportional set size (PSS, the `Pss` line of /proc/PID/smaps_rollup) gives each process
its share of a shared page, so that the sum over the tree is the memory really in use.

A thread takes that sum once a second and keeps the largest. A peak shorter than that can slip
through, but allocators hold on to memory longer. More often would disturb what is measured: the
kernel walks every page table for it, and one sample of the seven processes of the default models
costs about 15 ms of a core.
"""

import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

INTERVAL_S = 1.0
KIB = 1024
MB = 1e6


@dataclass(frozen=True, slots=True)
class Memory:
    """Memory of a process tree at one moment, in MB of 10⁶ bytes."""

    total_mb: float = 0.0
    by_process_mb: dict[str, float] = field(default_factory=dict)
    """By process name, with the model for a Python model's process."""


class MemorySampler:
    """Samples a process tree while the block runs; `peak` is the largest sample so far."""

    def __init__(
        self, root: int, *, with_root: bool = True, interval_s: float = INTERVAL_S
    ) -> None:
        """Watch the descendants of process `root`, and `root` itself where `with_root` is set."""
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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stopped.set()
        self._thread.join()

    def forget(self) -> None:
        """Begin anew: the next peak is that of what comes from here on."""
        with self._lock:
            self._peak = Memory()

    def peak(self) -> Memory:
        """Take another sample and return the largest so far."""
        self.sample()
        with self._lock:
            return self._peak

    def _run(self) -> None:
        while not self._stopped.wait(self._interval_s):
            self.sample()

    def sample(self) -> None:
        """Take a sample now."""
        pids = process_tree(self._root)
        now = tree_memory(pids if self._with_root else pids[1:])
        with self._lock:
            if now.total_mb > self._peak.total_mb:
                self._peak = now


def process_tree(root: int) -> list[int]:
    """Return `root` and all its descendants that live now."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit() and (parent := _parent(int(entry))) is not None:
            children.setdefault(parent, []).append(int(entry))
    tree = [root]
    for pid in tree:
        tree.extend(children.get(pid, []))
    return tree


def cpu_by_process(root: int) -> dict[str, float]:
    """Return the seconds of CPU that the living descendants of a process have used, by name."""
    tick = os.sysconf("SC_CLK_TCK")
    used: dict[str, float] = {}
    for pid in process_tree(root)[1:]:
        if stat := _read(pid, "stat"):
            user, system = stat.rpartition(")")[2].split()[11:13]
            name = _name(pid)
            used[name] = used.get(name, 0.0) + (int(user) + int(system)) / tick
    return used


def cpu_since(root: int, before: Mapping[str, float]) -> dict[str, float]:
    """Return what `cpu_by_process` has grown by, of the processes that have used any."""
    used = {name: now - before.get(name, 0.0) for name, now in cpu_by_process(root).items()}
    return {name: round(seconds, 3) for name, seconds in used.items() if seconds > 0}


def tree_memory(pids: list[int]) -> Memory:
    """Return the sum of the processes' PSS; one that has ended counts nothing."""
    by_process: dict[str, float] = {}
    for pid in pids:
        if (pss := _pss_mb(pid)) is not None:
            name = _name(pid)
            by_process[name] = round(by_process.get(name, 0.0) + pss, 1)
    return Memory(round(sum(by_process.values()), 1), by_process)


def _parent(pid: int) -> int | None:
    stat = _read(pid, "stat")
    # The second field is the command in brackets, which may hold spaces and brackets itself.
    return int(stat.rpartition(")")[2].split()[1]) if stat else None


def _pss_mb(pid: int) -> float | None:
    for line in _read(pid, "smaps_rollup").splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * KIB / MB
    return None


def _name(pid: int) -> str:
    arguments = _read(pid, "cmdline").split("\0")
    # A Python model's process is started as `triton_python_backend_stub …/vad/1/model.py …`.
    for argument in arguments[1:]:
        path = Path(argument)
        if path.name == "model.py":
            return path.parent.parent.name
    return Path(arguments[0]).name or _read(pid, "comm").strip()


def _read(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""  # the process has ended
