"""When the passes over live streams run: limited in number, the most urgent first.

Live chunks come first. While they, or the passes, are late, the passes of all streams become
rarer; while there is room, they come back, slower than they went.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Literal, TypeVar

from conch.bls.calls import Calls
from conch.bls.concurrency import PrioritySemaphore
from conch.recognition.config import RecognitionConfig
from conch.wire.errors import OverloadedError
from conch.wire.options import RecognitionOptions

Priority = Literal["low", "normal", "high"]

PERIOD_S = 1.0
"""Seconds between two decisions."""
LATE_STEP, PROMPT_STEP = 0.45, 0.25
"""Share of a step's length that 9 of 10 steps may take: above the first, the machine is late; below
the second, it has room."""
LATE_PASS, PROMPT_PASS = 0.9, 0.5
"""Share of the interval between passes that their mean time may take: above the first, the machine
is late; below the second, it has room."""
STRETCH, RELAX = 1.3, 0.2
"""Factor of the stretch after a late period. After one with room the second is taken off, times the
root of the stretch."""
PATIENCE = 3
"""Periods with room in a row, before the passes come back."""
MOST_IDLE = 100
"""Periods without a step after which any stretch is gone."""
LONGEST = 16.0
"""Largest stretch, a factor."""
MOST_ROLLING, MOST_AT_PAUSES = 5.0, 8.0
"""Stretch up to which there are rolling passes, and passes at pauses that may end an utterance."""
SHARES: Mapping[Priority, float] = {"low": 0.5, "normal": 1.0, "high": 2.0}


class Allowed(IntEnum):
    """The passes that a stream may have; each level includes those below."""

    ENDPOINTS = 0
    """Second passes, after the endpoint."""
    PAUSES = 1
    """Second passes that begin in a pause, before it is an endpoint."""
    ROLLING = 2
    """Rolling passes during speech."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How much rarer passes are than asked for; frozen: each period gives a new one."""

    stretch: float = 1.0
    """Factor of the interval between passes."""
    periods_with_room: int = 0

    def after_period(self, step_share: float | None, pass_share: float | None) -> "Pace":
        """Return the pace after a period.

        `step_share` is the time of the slowest tenth of live steps, divided by a step's length.
        `pass_share` is the mean time of a pass since it was due, divided by the interval. Each is
        None for a period without a step, or without a pass.
        """
        step, of_pass = step_share or 0.0, pass_share or 0.0
        if step > LATE_STEP or of_pass > LATE_PASS:
            # Twice the step for steps that are twice as late: a crowd of streams starts at once.
            factor = STRETCH if step < 2 * LATE_STEP else STRETCH**2
            return Pace(min(LONGEST, self.stretch * factor))
        if step > PROMPT_STEP or of_pass > PROMPT_PASS:
            return replace(self, periods_with_room=0)
        if self.periods_with_room < PATIENCE:
            return replace(self, periods_with_room=self.periods_with_room + 1)
        return replace(self, stretch=max(1.0, self.stretch - RELAX * self.stretch**0.5))

    def interval_ms(self, requested_ms: int, priority: Priority) -> int:
        """Return the milliseconds between rolling passes; 0 where load leaves none."""
        if self.allowed(priority) < Allowed.ROLLING:
            return 0
        return round(requested_ms * self._stretch_of(priority))

    def allowed(self, priority: Priority) -> Allowed:
        stretch = self._stretch_of(priority)
        if stretch <= MOST_ROLLING:
            return Allowed.ROLLING
        return Allowed.PAUSES if stretch <= MOST_AT_PAUSES else Allowed.ENDPOINTS

    def _stretch_of(self, priority: Priority) -> float:
        return 1 + (self.stretch - 1) / SHARES[priority]


class LoadMeter:
    """Measures how late live steps and passes are, and keeps the pace that follows from it."""

    def __init__(self, step_s: float) -> None:
        self._step_s = step_s
        self._steps: list[float] = []
        self._passes: list[float] = []
        self._since: float | None = None
        self.pace = Pace()

    def step_took(self, seconds: float, now: float) -> None:
        self._steps.append(seconds / self._step_s)
        self._decide(now)

    def pass_took(self, seconds: float, interval_s: float, now: float) -> None:
        self._passes.append(seconds / interval_s)
        self._decide(now)

    def _decide(self, now: float) -> None:
        if self._since is None:
            self._since = now
        if now - self._since < PERIOD_S:
            return
        idle = min(MOST_IDLE, int((now - self._since) / PERIOD_S) - 1)
        for _ in range(idle):
            self.pace = self.pace.after_period(None, None)
        slowest = sorted(self._steps)[len(self._steps) * 9 // 10] if self._steps else None
        mean = sum(self._passes) / len(self._passes) if self._passes else None
        self.pace = self.pace.after_period(slowest, mean)
        self._steps, self._passes, self._since = [], [], now


Result = TypeVar("Result")


class Rank(IntEnum):
    """Which passes go first; among equals the one that is due first."""

    SECOND = 0
    """Second passes of utterances that have ended: their text is awaited."""
    ROLLING = 1
    """Passes while an utterance is open."""
    FILE = 2
    """Passes of a stream that is sent faster than it is spoken."""


class PassQueue:
    """Admits passes by their rank. Of several places, one is kept for second passes.

    A pass must not wait for another one while it has a place.
    """

    def __init__(self, most: int) -> None:
        self._semaphore = PrioritySemaphore(most)
        self._kept = 1 if most > 1 else 0

    async def run(
        self,
        make: Callable[[], Awaitable[Result]],
        *,
        due: float,
        rank: Rank,
        patience_s: float | None = None,
    ) -> Result:
        """Run a pass by `PrioritySemaphore.run`; raise an OverloadedError after `patience_s`."""
        has_begun = False

        async def begun() -> Result:
            nonlocal has_begun
            has_begun = True
            return await make()

        kept = 0 if rank == Rank.SECOND else self._kept
        try:
            return await self._semaphore.run(begun, (rank, due), kept=kept, patience_s=patience_s)
        except TimeoutError:
            if has_begun:
                raise
            raise OverloadedError(
                f"the passes of other streams took all of {patience_s:g} s"
            ) from None


@dataclass(frozen=True, slots=True)
class SharedPasses:
    queue: PassQueue
    load: LoadMeter
    clock: Callable[[], float]
    """Returns seconds that only grow."""


@dataclass(frozen=True, slots=True)
class PassedStream:
    options: RecognitionOptions
    calls: Calls
    """Calls that may outlive the request of a chunk."""
    shared: SharedPasses
    config: RecognitionConfig
    is_ahead: Callable[[], bool]
    """Returns whether the stream is sent faster than it is spoken: no one waits."""
