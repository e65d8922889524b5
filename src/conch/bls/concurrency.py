"""Concurrency limits of components; calls of recordings wait here in a fair order.

A component begins first come, first served. A live chunk or a short request can overtake a call
that waits here, but not one that waits at the component.

Within one request the earliest part goes first, because the answer is sent in this order.
"""

import asyncio
from collections.abc import Callable
from contextvars import ContextVar

from conch.bls.call import Call, Outputs, Send
from conch.bls.config import BlsConfig
from conch.bls.metrics import TURN_SECONDS, Metrics
from conch.bls.priority_semaphore import Key, PrioritySemaphore
from conch.bls.traits import OwnComponents, traits_of

OLDEST_OF = 8
"""One turn in 8 goes to the oldest request: short ones must not hold up a long one forever."""
PART: ContextVar[float] = ContextVar("part", default=0.0)
"""Position of a task's work in the request's answer, such as the segment's start in seconds. The
lowest goes first."""


class ConcurrencyLimits:
    """The limits at all components, for the calls of all requests."""

    def __init__(self, config: BlsConfig, components: OwnComponents, metrics: Metrics) -> None:
        self._config, self._components = config, components
        self.metrics = metrics
        self._semaphores: dict[str, PrioritySemaphore] = {}

    def at(self, model: str) -> PrioritySemaphore:
        if model not in self._semaphores:
            self._semaphores[model] = PrioritySemaphore(self._most(model), OLDEST_OF)
        return self._semaphores[model]

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
        asked = clock()

        async def called() -> Outputs:
            self._limits.metrics.add(TURN_SECONDS, clock() - asked, component=model)
            return await proceed(call)

        if model not in self._own:
            self._own[model] = PrioritySemaphore(
                lambda: self._limits.most_of_one(model, is_first=self._is_first())
            )
        async with self._own[model].place((part,)):
            return await self._limits.at(model).run(called, (*self._key, part))


class WithoutWaiting:
    """Policy of live streams: their calls go at once, and those of recordings wait for them."""

    def __init__(self, limits: ConcurrencyLimits) -> None:
        self._limits = limits

    async def __call__(self, call: Call, proceed: Send) -> Outputs:
        with self._limits.at(call.model).exempt():
            return await proceed(call)
