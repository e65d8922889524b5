"""Decide which models need new processes, when to try again, and when a stopping server is idle.

Triton 2.51 does not replace the process of a Python model, and reports the model as ready without
it. It gives up for good on a process that is silent for a second. A frozen process that continues
after that ends the whole server by the locks that they share, so it must be killed before.
"""

from collections.abc import Mapping
from dataclasses import dataclass

FROZEN_S = 0.7
"""Seconds that a process may be stopped: less than the second after which Triton gives it up."""
LONGEST_DELAY_S = 30.0
"""Seconds between two attempts, at most."""
QUIET_S = 2.0
"""Seconds without computing after which a server that was asked to stop has nothing left to do."""
QUIET_CPU_S = 0.05
"""Most CPU time that idle models use in QUIET_S: a few ms, while 100 others share the cores."""
EMPTY_S = 0.5
"""Seconds for the last answers to leave a server whose models have all ended."""


@dataclass(frozen=True, slots=True)
class Look:
    model: str

    state: str
    """The letter of proc(5), such as R for running; empty for a process that is gone."""

    @property
    def is_dead(self) -> bool:
        return self.state in ("", "Z", "X")

    @property
    def is_running(self) -> bool:
        """Whether the process computes or reads from a disk right now."""
        return self.state in ("R", "D")

    @property
    def is_stopped(self) -> bool:
        """Whether a signal or a debugger has stopped the process; a slow one is not stopped."""
        return self.state in ("T", "t")


def stopped_since(
    before: Mapping[int, float], looks: Mapping[int, Look], now: float
) -> dict[int, float]:
    """Return since when each stopped process has been seen stopped, by process id."""
    return {process: before.get(process, now) for process, look in looks.items() if look.is_stopped}


def frozen(stopped: Mapping[int, float], now: float) -> set[int]:
    return {process for process, since in stopped.items() if now - since >= FROZEN_S}


def sick_models(looks: Mapping[int, Look], frozen_ones: set[int]) -> dict[str, str]:
    sick = {looks[process].model: "is frozen" for process in sorted(frozen_ones & looks.keys())}
    return sick | {look.model: "has died" for look in looks.values() if look.is_dead}


class Backoff:
    """When something that keeps failing is tried again: at once, then after 1, 2, 4 … 30 s."""

    def __init__(self, healthy_s: float) -> None:
        """There is no delay after `healthy_s` seconds without an attempt."""
        self._healthy_s = healthy_s
        self._delay_s = 0.0
        self._due = 0.0

    def wait_s(self, now: float) -> float:
        return max(0.0, self._due - now)

    def attempt(self, now: float) -> None:
        if now - self._due >= self._healthy_s:
            self._delay_s = 0.0
        self._delay_s = min(LONGEST_DELAY_S, 2 * self._delay_s or 1.0)
        self._due = now + self._delay_s


class Quiet:
    """Detects when a server that was asked to stop has nothing left to compute."""

    def __init__(self) -> None:
        self._busy_at: float | None = None
        self._ended_at: float | None = None
        self._cpu_s = 0.0

    def look(self, looks: Mapping[int, Look], cpu_s: float, now: float) -> bool:
        """Return whether no client can wait for anything that the server still does.

        `cpu_s` is the CPU time that the living stubs have used since their start.
        """
        if all(look.is_dead for look in looks.values()):
            self._ended_at = now if self._ended_at is None else self._ended_at
            return now - self._ended_at >= EMPTY_S
        # The sum falls when a process ends.
        is_busy = not 0 <= cpu_s - self._cpu_s < QUIET_CPU_S
        if self._busy_at is None or is_busy or any(look.is_running for look in looks.values()):
            self._busy_at, self._cpu_s = now, cpu_s
        return now - self._busy_at >= QUIET_S
