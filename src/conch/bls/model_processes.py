"""The processes of this server's models, seen in /proc."""

import os
import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from conch.processes import model_processes, stat_fields

LIST_S = 5.0
"""Seconds between two lists of the processes."""
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def boot_time_s() -> float:
    """Return the seconds since this machine has started: the clock of /proc."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class ThreadTimes(NamedTuple):
    """What the kernel says of a thread."""

    is_runnable: bool
    """Whether it computes, or waits for a core or a disk, right now."""
    cpu_s: float
    """Seconds of computing."""
    delay_s: float
    """Seconds of waiting for a core, as far as the waits have ended."""


def starved_s(
    before: Mapping[int, ThreadTimes], after: Mapping[int, ThreadTimes], elapsed_s: float
) -> float:
    """Return for how long the thread that waited longest has waited for a core.

    A computation on several threads ends with the last one. The times of each thread are those
    before and after `elapsed_s` seconds.
    """
    waits = [0.0]
    for thread in before.keys() & after.keys():
        old, new = before[thread], after[thread]
        waits.append(new.delay_s - old.delay_s)
        if old.is_runnable and new.is_runnable:  # perhaps in a wait that has not ended
            waits.append(elapsed_s - (new.cpu_s - old.cpu_s))
    return min(elapsed_s, max(waits))


class ModelProcesses:
    """The processes of the models of a server; times are those of `boot_time_s`."""

    def __init__(self, server: int) -> None:
        """`server` is the id of the server's process."""
        self._server = server
        self._listed: tuple[float, dict[int, str]] = (-LIST_S, {})
        self._looks: dict[str, tuple[float, dict[int, ThreadTimes]]] = {}

    def started(self, model: str) -> Sequence[float]:
        """Return when each process of a model began; empty where none can be seen."""
        self._listed = (-LIST_S, {})
        return [began for process in self._of(model) if (began := _started(process)) is not None]

    def starved_s(self, model: str) -> float:
        """Return for how many seconds since the last look a model has waited for a core."""
        now = boot_time_s()
        threads = {
            thread: times for process in self._of(model) for thread, times in _threads(process)
        }
        looked_at, before = self._looks.get(model, (now, {}))
        self._looks[model] = now, threads
        return starved_s(before, threads, now - looked_at)

    def kill(self, model: str, before: float) -> int:
        """End the processes of a model that began before a time; return how many."""
        return sum(self._kill(process, before) for process in self._of(model))

    def _of(self, model: str) -> list[int]:
        now = boot_time_s()
        if now - self._listed[0] >= LIST_S:
            self._listed = now, model_processes(self._server)
        return [process for process, name in self._listed[1].items() if name == model]

    def _kill(self, process: int, before: float) -> bool:
        with suppress(OSError):
            # From here on the number is that of no other process.
            handle = os.pidfd_open(process)
            try:
                state, parent, *_ = stat_fields(str(process))
                began = _started(process)
                if int(parent) == self._server and began is not None and began < before:
                    signal.pidfd_send_signal(handle, signal.SIGKILL)
                    return state not in ("Z", "X")
            finally:
                os.close(handle)
        return False


def _started(process: int) -> float | None:
    try:
        return int(stat_fields(str(process))[19]) / TICKS_PER_S
    except OSError:
        return None


def _threads(process: int) -> list[tuple[int, ThreadTimes]]:
    """Return the times of a process's threads, by thread; those that end meanwhile are left out."""
    found = []
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{process}/task"):
            with suppress(OSError):
                found.append((int(thread), _times(f"{process}/task/{thread}")))
    return found


def _times(thread: str) -> ThreadTimes:
    fields = stat_fields(thread)
    try:
        computed, waited, _ = Path(f"/proc/{thread}/schedstat").read_text().split()
    except FileNotFoundError:  # this kernel counts whole ticks of computing only
        return ThreadTimes(fields[0] in ("R", "D"), sum(map(int, fields[11:13])) / TICKS_PER_S, 0.0)
    return ThreadTimes(fields[0] in ("R", "D"), int(computed) / 1e9, int(waited) / 1e9)
