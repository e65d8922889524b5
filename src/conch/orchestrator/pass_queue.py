"""The passes of all live streams: so many at once, the most urgent first."""

import asyncio
import heapq
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import count
from typing import TypeVar

from conch.orchestrator.load import Load
from conch.wire.errors import OverloadedError

Result = TypeVar("Result")


class PassQueue:
    """Admits passes: second passes first, and among equals the one that is due first.

    One place is kept for second passes.
    """

    def __init__(self, most: int) -> None:
        """Start with no pass.

        Args:
            most: Largest number of passes in flight.
        """
        self._free = most
        self._kept = 1 if most > 1 else 0
        self._waiting: list[tuple[bool, float, int, asyncio.Future[None]]] = []
        self._numbers = count()

    async def run(
        self,
        make: Callable[[], Awaitable[Result]],
        *,
        due: float,
        is_second: bool,
        patience_s: float | None = None,
    ) -> Result:
        """Run a pass as soon as it has a place, and return its result.

        Args:
            make: Makes the pass; it is called when the place is there.
            due: When the pass should begin, on a monotonic clock.
            is_second: Whether it is a second pass, not a rolling one.
            patience_s: Longest time to wait for the place, in seconds; None for no limit.

        Raises:
            OverloadedError: there was no place in time.
        """
        place = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (not is_second, due, next(self._numbers), place))
        self._admit()
        try:
            async with asyncio.timeout(patience_s):
                await place
        except BaseException as error:
            if place.done() and not place.cancelled():
                self._leave()
            if isinstance(error, TimeoutError):
                raise OverloadedError(
                    f"the passes of other streams took all of {patience_s:g} s"
                ) from None
            raise
        try:
            return await make()
        finally:
            self._leave()

    def _leave(self) -> None:
        self._free += 1
        self._admit()

    def _admit(self) -> None:
        while self._waiting:
            is_rolling, _, _, place = self._waiting[0]
            if not place.done() and self._free <= (self._kept if is_rolling else 0):
                return
            heapq.heappop(self._waiting)
            if not place.done():  # not cancelled
                self._free -= 1
                place.set_result(None)


@dataclass(frozen=True, slots=True)
class SharedPasses:
    """What the passes of all streams share."""

    queue: PassQueue
    load: Load
