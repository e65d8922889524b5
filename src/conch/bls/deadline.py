"""The time budget of a request."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from conch.wire.errors import DeadlineError

BEFORE_CALLS = "before the first call"
"""Part of the message if the time is over before any call of a component: one may still load."""


class Deadline:
    """A time budget, which starts when it is made."""

    def __init__(
        self,
        budget_ms: int = 0,
        clock: Callable[[], float] = time.monotonic,
        started: float | None = None,
    ) -> None:
        """Start the clock, or take when it `started`; a budget of 0 ms has no limit."""
        self._budget_ms, self._clock = budget_ms, clock
        self._started = clock() if started is None else started

    def remaining_s(self, when: str) -> float | None:
        """Return the seconds left, None for no limit, or raise a DeadlineError with `when`."""
        if not self._budget_ms:
            return None
        left_s = self._budget_ms / 1000 - (self._clock() - self._started)
        if left_s <= 0:
            raise self._error(when)
        return left_s

    @asynccontextmanager
    async def limiting(self, path: Callable[[], Sequence[str]]) -> AsyncIterator[None]:
        """Cancel the block when the time is over, and raise a DeadlineError.

        It names the latest component of `path`. The DeadlineError of a call inside is raised
        unchanged, because its message is more precise.
        """
        try:
            async with asyncio.timeout(self.remaining_s(BEFORE_CALLS)) as scope:
                yield
        except TimeoutError as error:
            if isinstance(error, DeadlineError) or not scope.expired():
                raise
            called = path()
            raise self._error(f"in {called[-1]}" if called else BEFORE_CALLS) from None

    def _error(self, when: str) -> DeadlineError:
        return DeadlineError(f"deadline_ms of {self._budget_ms} ran out {when}")
