"""The passes of all live streams: so many at once, the most urgent first."""

import asyncio
import heapq
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import IntEnum
from itertools import count
from typing import Any, TypeVar

from conch.orchestrator.load import Load
from conch.wire.errors import OverloadedError

Result = TypeVar("Result")


class Rank(IntEnum):
    """Which passes go first; among equals the one that is due first."""

    SECOND = 0
    """Second passes of utterances that have ended: somebody waits for their text."""
    ROLLING = 1
    """Passes while an utterance is open."""
    FILE = 2
    """Passes of a stream that is sent faster than it is spoken."""


class PassQueue:
    """Admits passes by their rank. Of several places, one is kept for second passes.

    A pass must not wait for another one while it has a place.
    """

    def __init__(self, most: int) -> None:
        """Start with no pass.

        Args:
            most: Largest number of passes in flight.
        """
        self._free = most
        self._kept = 1 if most > 1 else 0
        self._waiting: list[tuple[Rank, float, int, asyncio.Future[None]]] = []
        self._numbers = count()
        self._running: set[asyncio.Future[Any]] = set()

    async def run(
        self,
        make: Callable[[], Awaitable[Result]],
        *,
        due: float,
        rank: Rank,
        patience_s: float | None = None,
    ) -> Result:
        """Run a pass as soon as it has a place, and return its result.

        A pass that has begun runs to its end and keeps its place, even if nobody waits for it any
        more: a component cannot be stopped.

        Args:
            make: Makes the pass; it is called when the place is there.
            due: When the pass should begin, on a monotonic clock.
            rank: Which passes go before it.
            patience_s: Longest time to wait for the place, in seconds; None for no limit.

        Raises:
            OverloadedError: there was no place in time.
        """
        place = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (rank, due, next(self._numbers), place))
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
        running = asyncio.create_task(_made(make))
        self._running.add(running)
        running.add_done_callback(self._ended)
        return await asyncio.shield(running)

    def _ended(self, running: asyncio.Future[Any]) -> None:
        self._running.discard(running)
        if not running.cancelled():
            running.exception()  # it has been seen, even if nobody waits
        self._leave()

    def _leave(self) -> None:
        self._free += 1
        self._admit()

    def _admit(self) -> None:
        while self._waiting:
            rank, _, _, place = self._waiting[0]
            kept = 0 if rank == Rank.SECOND else self._kept
            if not place.done() and self._free <= kept:
                return
            heapq.heappop(self._waiting)
            if not place.done():  # not cancelled
                self._free -= 1
                place.set_result(None)


async def _made(make: Callable[[], Awaitable[Result]]) -> Result:
    return await make()


@dataclass(frozen=True, slots=True)
class SharedPasses:
    """What the passes of all streams share."""

    queue: PassQueue
    load: Load
