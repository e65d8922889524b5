"""Turns at the components: few calls of recordings at once, those of the first request in front.

A component answers first come, first served. So what waits there cannot be overtaken: by a chunk
of a speaker, or by a short request behind the segments of a long one. What waits here can.

Of one recording, the calls of the earliest segment go first: the text leaves in this order. So a
segment that needs one more call does not wait behind all that are in flight.
"""

import asyncio
from bisect import insort
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from itertools import count

from conch.bls.calls import Components, Parameter, Tensor
from conch.bls.metrics import TURN_SECONDS, Metrics
from conch.bls.priority_semaphore import Key, Places
from conch.component import Array
from conch.recognition.config import OrchestratorConfig
from conch.wire.stream_place import StreamPlace

LEAST_S = 0.001
"""Least time that a call may wait at its component, in seconds: there 0 means no limit."""
OLDEST_OF = 8
"""Of so many turns in a row, one is that of the oldest recording: short ones without end do not
hold up a long one for ever."""
SEGMENT_START: ContextVar[float] = ContextVar("segment_start", default=0.0)
"""Start of the segment that a task recognises, in seconds of its recording."""
ONE_BY_ONE = frozenset({"vad", "attention_encoder"})
"""Components that answer the calls of a batch one after the other on a CPU."""


class Turns:
    """The turns of all requests at all components."""

    def __init__(self, config: OrchestratorConfig, metrics: Metrics) -> None:
        """Start without calls.

        Args:
            config: Limits.
            metrics: Where waits are counted.
        """
        self._config, self._metrics = config, metrics
        self._places: dict[str, Places] = {}

    def of(self, components: Components) -> "InTurn":
        """Return components for the calls of one recording, which wait for their turn."""
        return InTurn(self, components)

    def at_once(self, components: Components) -> Components:
        """Return components whose calls, of live streams, wait for nobody; recordings wait."""
        return _AtOnce(self, components)

    def at(self, model: str) -> Places:
        """Return the places at a component."""
        if model not in self._places:
            self._places[model] = Places(self._most(model), OLDEST_OF)
        return self._places[model]

    def most_of_one(self, model: str, *, is_first: bool) -> int:
        """Return how many places at a component one recording may take: a part of them.

        What has a place cannot be overtaken any more. So a short recording does not wait behind all
        segments that a long one has in flight. One that is alone takes no more either: on two cores
        it was no faster with all places.

        Args:
            model: The component.
            is_first: Whether no other recording goes before it. If one does, it leaves instances
                free for the next: one call at a time keeps only one of them busy.
        """
        alone, beside = (2, 4) if model in ONE_BY_ONE else (4, 16)
        return max(1, self._most(model) // (alone if is_first else beside))

    def give_up(self, model: str) -> None:
        """Free the places at a component that was replaced: its calls wait for what is gone."""
        self.at(model).give_up()

    def _most(self, model: str) -> int:
        config = self._config
        return config.max_encoder_calls if model in ONE_BY_ONE else config.max_decoder_calls

    def waited(self, model: str, seconds: float) -> None:
        """Count the wait of a call for its turn."""
        self._metrics.add(TURN_SECONDS, seconds, component=model)


class InTurn:
    """Components for the calls of one recording; see `conch.bls.calls.Components`."""

    def __init__(self, turns: Turns, components: Components) -> None:
        """Call nothing yet.

        Args:
            turns: The turns of all requests.
            components: The components to call.
        """
        self._turns, self._components = turns, components
        self._key: Key = (0.0, 0)
        self._is_first: Callable[[], bool] = lambda: True
        self._own: dict[str, _Own] = {}

    def begin(self, key: Key, is_first: Callable[[], bool]) -> None:
        """Give the recording its place among others.

        Args:
            key: Recordings with a lower one go before it.
            is_first: Returns whether there is none.
        """
        self._key, self._is_first = key, is_first

    async def call(
        self,
        model: str,
        inputs: Mapping[str, Array | Tensor],
        wanted: Sequence[str],
        parameters: Mapping[str, Parameter],
        timeout_s: float | None,
        place: StreamPlace | None,
    ) -> Mapping[str, Tensor]:
        """Call a component when it is the turn of the recording and of its segment."""
        clock, start = asyncio.get_running_loop().time, SEGMENT_START.get()
        asked = clock()

        async def called() -> Mapping[str, Tensor]:
            waited_s = clock() - asked
            self._turns.waited(model, waited_s)
            left_s = None if timeout_s is None else max(LEAST_S, timeout_s - waited_s)
            return await self._components.call(model, inputs, wanted, parameters, left_s, place)

        def most() -> int:
            return self._turns.most_of_one(model, is_first=self._is_first())

        async with self._own.setdefault(model, _Own()).place(most, start):
            return await self._turns.at(model).run(called, (*self._key, start))

    async def is_loaded(self, model: str) -> bool:
        """Return whether the server has a component."""
        return await self._components.is_loaded(model)


class _Own:
    """The calls of one recording at one component. Their largest number may change."""

    def __init__(self) -> None:
        self._in_flight = 0
        self._waiting: list[tuple[float, int]] = []
        """Start and number of each call that waits, in order."""
        self._numbers = count()
        self._changed = asyncio.Condition()

    @asynccontextmanager
    async def place(self, most: Callable[[], int], start: float) -> AsyncIterator[None]:
        """Wait until fewer than `most` calls are in flight, and none waits of an earlier segment.

        Args:
            most: Returns the largest number of calls in flight.
            start: Start of the segment, in seconds.
        """
        async with self._changed:
            mine = start, next(self._numbers)
            insort(self._waiting, mine)
            try:
                await self._changed.wait_for(
                    lambda: self._waiting[0] == mine and self._in_flight < most()
                )
                self._in_flight += 1
            finally:
                self._waiting.remove(mine)
                self._changed.notify_all()
        try:
            yield
        finally:
            self._in_flight -= 1
            async with self._changed:
                self._changed.notify_all()


class _AtOnce:
    """Components for the calls of a live stream; see `conch.bls.calls.Components`."""

    def __init__(self, turns: Turns, components: Components) -> None:
        self._turns, self._components = turns, components

    async def call(
        self,
        model: str,
        inputs: Mapping[str, Array | Tensor],
        wanted: Sequence[str],
        parameters: Mapping[str, Parameter],
        timeout_s: float | None,
        place: StreamPlace | None,
    ) -> Mapping[str, Tensor]:
        with self._turns.at(model).beside():
            return await self._components.call(model, inputs, wanted, parameters, timeout_s, place)

    async def is_loaded(self, model: str) -> bool:
        return await self._components.is_loaded(model)
