"""Run at most N jobs at once; the rest wait in the order of their keys."""

import asyncio
import heapq
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any, TypeVar

Result = TypeVar("Result")
Key = tuple[float, ...]
"""The least key goes first; among equals the one that came first."""


@dataclass(order=True, slots=True)
class _Waiting:
    key: Key
    number: int
    kept: int = field(compare=False)
    """Places that it must leave free."""
    place: asyncio.Future[None] = field(compare=False)


class PrioritySemaphore:
    """Runs a limited number of jobs at once. A running job must not wait for another job."""

    def __init__(self, most: int | Callable[[], int], oldest_of: int = 0) -> None:
        """Limit the jobs in flight to `most`, which may change, without exempt ones.

        One of `oldest_of` places goes to the job with the least key without its first part, which
        is the oldest, so that no job waits forever; 0 for none.
        """
        self._most = most if callable(most) else lambda: most
        self._oldest_of = oldest_of
        self._given = 0
        """Number of places given so far."""
        self._taken = 0
        """Places in use."""
        self._exempt = 0
        """Jobs in flight that did not wait."""
        self._waiting: list[_Waiting] = []
        self._numbers = count()
        self._running: set[asyncio.Future[Any]] = set()

    async def run(
        self,
        make: Callable[[], Coroutine[Any, Any, Result]],
        key: Key,
        *,
        kept: int = 0,
        patience_s: float | None = None,
    ) -> Result:
        """Run the job of `make` as soon as it has a place, and return its result.

        A job that has begun keeps its place to its end, even after its caller was cancelled: a
        component cannot be stopped. Jobs with a lower `key` go first; `kept` places are left free.
        Raise a TimeoutError after `patience_s` seconds without a place; None for no limit. A
        TimeoutError of the job is raised as well.
        """
        await self._place(key, kept, patience_s)
        running = asyncio.create_task(make())
        self._running.add(running)
        running.add_done_callback(self._ended)
        return await asyncio.shield(running)

    @asynccontextmanager
    async def place(self, key: Key) -> AsyncIterator[None]:
        """Run the block as soon as it has a place, which it leaves at its end."""
        await self._place(key)
        try:
            yield
        finally:
            self._leave()

    @contextmanager
    def exempt(self) -> Iterator[None]:
        """Count the block as a job in flight that has not waited; others wait for it.

        One of the waiting jobs may run at any time.
        """
        self._exempt += 1
        try:
            yield
        finally:
            self._exempt -= 1
            self._admit()

    async def _place(self, key: Key, kept: int = 0, patience_s: float | None = None) -> None:
        place = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, _Waiting(key, next(self._numbers), kept, place))
        self._admit()
        try:
            async with asyncio.timeout(patience_s):
                await place
        except BaseException:
            if place.done() and not place.cancelled():
                self._leave()
            self._waiting = [item for item in self._waiting if not item.place.done()]
            heapq.heapify(self._waiting)
            raise

    def _ended(self, running: asyncio.Future[Any]) -> None:
        self._running.discard(running)
        if not running.cancelled():
            running.exception()  # mark it as retrieved: the caller may be gone
        self._leave()

    def _leave(self) -> None:
        self._taken -= 1
        self._admit()

    def _admit(self) -> None:
        while self._waiting:
            first = self._waiting[0]
            if first.place.done():  # cancelled
                heapq.heappop(self._waiting)
                continue
            is_full = self._taken + self._exempt >= self._most() - first.kept
            if self._taken and is_full:
                return
            self._given += 1
            if self._oldest_of and self._given % self._oldest_of == 0:
                still = (item for item in self._waiting if not item.place.done())
                first = min(still, key=lambda item: (item.key[1:], item.number))
            # It leaves the heap when it reaches the front, as cancelled ones do.
            self._taken += 1
            first.place.set_result(None)
