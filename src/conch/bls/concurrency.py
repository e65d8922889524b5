"""Concurrency limits of components; calls of recordings wait here in a fair order.

A component begins first come, first served. A live chunk or a short request can overtake a call
that waits here, but not one that waits at the component.

Within one request the earliest part goes first, because the answer is sent in this order.
"""

import asyncio
import heapq
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import count
from typing import Any, TypeVar

from conch.bls.call import Call, Outputs, Send
from conch.bls.config import BlsConfig, OwnComponents, traits_of
from conch.bls.metrics import TURN_SECONDS, Metrics

Result = TypeVar("Result")
Key = tuple[float, ...]
"""The least key goes first; among equals the one that came first."""
OLDEST_OF = 8
"""One turn in 8 goes to the oldest request: short ones must not hold up a long one forever."""
PART: ContextVar[float] = ContextVar("part", default=0.0)
"""Position of a task's work in the request's answer, such as the segment's start in seconds. The
lowest goes first."""


@dataclass(order=True, slots=True)
class _WaitingJob:
    key: Key
    number: int
    size: float = field(compare=False)
    """Slots that it takes."""
    kept: float = field(compare=False)
    """Slots that it must leave free; below 0, those that it alone may take beyond all."""
    admitted: asyncio.Future[None] = field(compare=False)


class PrioritySemaphore:
    """Runs a limited number of jobs at once. A running job must not wait for another job."""

    def __init__(self, most: float | Callable[[], int], oldest_of: int = 0) -> None:
        """Limit the slots of jobs in flight to `most`, which may change, without exempt ones.

        A job that is alone may take more. One of `oldest_of` jobs is the one with the least key
        without its first part: the oldest, so that no job waits forever. 0 is for none.
        """
        self._most = most if callable(most) else lambda: most
        self._oldest_of = oldest_of
        self._given = 0
        self.taken = 0.0
        """Slots of the jobs in flight."""
        self._exempt = 0
        self._waiting: list[_WaitingJob] = []
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
        """Run the job of `make` as soon as it has a slot, and return its result.

        A job that has begun keeps its slot to its end, even after its caller was cancelled: a
        component cannot be stopped. Jobs with a lower `key` go first; `kept` slots are left free.
        Raise a TimeoutError after `patience_s` seconds without a slot; None for no limit. A
        TimeoutError of the job is raised as well.
        """
        await self.acquire(key, kept=kept, patience_s=patience_s)
        running = asyncio.create_task(make())
        self._running.add(running)
        running.add_done_callback(self._ended)
        return await asyncio.shield(running)

    @asynccontextmanager
    async def slot(self, key: Key) -> AsyncIterator[None]:
        """Run the block as soon as it has a slot, which it leaves at its end."""
        await self.acquire(key)
        try:
            yield
        finally:
            self.release()

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

    async def acquire(
        self, key: Key, size: float = 1, *, kept: float = 0, patience_s: float | None = None
    ) -> None:
        """Wait for the slots of a job, or raise a TimeoutError; `release` gives them back."""
        admitted = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, _WaitingJob(key, next(self._numbers), size, kept, admitted))
        self._admit()
        try:
            async with asyncio.timeout(patience_s):
                await admitted
        except BaseException:
            if admitted.done() and not admitted.cancelled():
                self.taken -= size
            self._waiting = [item for item in self._waiting if not item.admitted.done()]
            heapq.heapify(self._waiting)
            self._admit()
            raise

    def _ended(self, running: asyncio.Future[Any]) -> None:
        self._running.discard(running)
        if not running.cancelled():
            running.exception()  # mark it as retrieved: the caller may be gone
        self.release()

    def release(self, size: float = 1) -> None:
        self.taken -= size
        self._admit()

    def _admit(self) -> None:
        while self._waiting:
            first = self._waiting[0]
            if first.admitted.done():  # cancelled
                heapq.heappop(self._waiting)
                continue
            taken = self.taken + self._exempt + first.size
            if self.taken and taken > self._most() - first.kept:
                return
            self._given += 1
            if self._oldest_of and self._given % self._oldest_of == 0:
                still = (item for item in self._waiting if not item.admitted.done())
                first = min(still, key=lambda item: (item.key[1:], item.number))
            # It leaves the heap when it reaches the front, as cancelled ones do.
            self.taken += first.size
            first.admitted.set_result(None)


class ConcurrencyLimits:
    def __init__(self, config: BlsConfig, components: OwnComponents, metrics: Metrics) -> None:
        self._config, self._components = config, components
        self.metrics = metrics
        self._semaphores: dict[str, PrioritySemaphore] = {}

    def at(self, model: str) -> PrioritySemaphore:
        if model not in self._semaphores:
            self._semaphores[model] = PrioritySemaphore(self._most(model), OLDEST_OF)
        return self._semaphores[model]

    async def without_waiting(self, call: Call, proceed: Send) -> Outputs:
        """Policy of live streams: their calls go at once, and those of recordings wait for them."""
        with self.at(call.model).exempt():
            return await proceed(call)

    def most_of_one(self, model: str, *, is_first: bool) -> int:
        """Return how many calls one recording may have in flight at a component.

        It is a part of the limit, because a call in flight cannot be overtaken. A recording alone
        has no more either: on two cores, the whole limit made it no faster. One that is not first
        leaves instances free for the next one.
        """
        traits = traits_of(model, self._components)
        first, others = (2, 4) if traits.is_one_by_one or traits.in_flight else (4, 16)
        most = traits.in_flight or self._most(model)
        return max(1, most // (first if is_first else others))

    def _most(self, model: str) -> int:
        config, traits = self._config, traits_of(model, self._components)
        if traits.in_flight:
            # The places that are left are those of live passes, which do not wait here.
            return max(1, min(config.max_decoder_calls, traits.in_flight * 3 // 4))
        return config.max_encoder_calls if traits.is_one_by_one else config.max_decoder_calls


class RecordingTurns:
    """Policy of one recording: its calls wait for their turn."""

    def __init__(self, limits: ConcurrencyLimits) -> None:
        self._limits = limits
        self._key: Key = (0.0, 0)
        self._is_first: Callable[[], bool] = lambda: True
        self._own: dict[str, PrioritySemaphore] = {}

    def begin(self, key: Key, is_first: Callable[[], bool]) -> None:
        """Give the recording its place; `is_first` returns whether none has a lower key."""
        self._key, self._is_first = key, is_first

    async def __call__(self, call: Call, proceed: Send) -> Outputs:
        """Send a call on when its recording and its part of the answer have their turn."""
        model, part = call.model, PART.get()
        clock = asyncio.get_running_loop().time
        began = clock()

        async def called() -> Outputs:
            self._limits.metrics.add(TURN_SECONDS, clock() - began, component=model)
            return await proceed(call)

        if model not in self._own:
            self._own[model] = PrioritySemaphore(
                lambda: self._limits.most_of_one(model, is_first=self._is_first())
            )
        async with self._own[model].slot((part,)):
            return await self._limits.at(model).run(called, (*self._key, part))
