"""The calls of one request to the components: within its deadline, counted and timed."""

import asyncio
import time
from collections.abc import (
    AsyncIterator,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager, contextmanager
from typing import Protocol, TypeVar

from conch.bls.failover import (
    PATIENCE_S,
    Absences,
    ComponentAwayError,
    ComponentHungError,
    StreamLostError,
)
from conch.bls.metrics import (
    CALL_SECONDS,
    CALLS,
    CALLS_REPEATED,
    Family,
    Metrics,
    outcome,
)
from conch.component import Array
from conch.wire.errors import (
    ComponentError,
    DeadlineError,
    MissingModelError,
    OverloadedError,
    RequestCancelledError,
)
from conch.wire.result import Stage
from conch.wire.stream_place import StreamPlace

MAX_REPEATS = 2
"""Repeats of a call whose component was away: the call itself may be what ends the process."""
MAX_REPEATS_HUNG = 1
"""Repeats of a call that its component has not answered: each try keeps the component busy."""
START_PATIENCE_S = 5.0
"""Longest time that the START of a stream waits for a place in a component, in seconds. Triton
would let it wait until another stream ends."""

Parameter = bool | int | str
Result = TypeVar("Result")


def deadline_error(deadline_ms: int, when: str) -> DeadlineError:
    """Return the error of a request whose time is over.

    Args:
        deadline_ms: The option of the request.
        when: End of the message, such as "in vad".
    """
    return DeadlineError(f"deadline_ms of {deadline_ms} ran out {when}")


class Tensor(Protocol):
    """An output tensor of a component, in the memory where the component left it."""

    def numpy(self) -> Array:
        """Return the content in host memory, without the batch dimension."""
        ...


class Components(Protocol):
    """Interface to the component models."""

    async def call(
        self,
        model: str,
        inputs: Mapping[str, Array | Tensor],
        wanted: Sequence[str],
        parameters: Mapping[str, Parameter],
        timeout_s: float | None,
        place: StreamPlace | None,
    ) -> Mapping[str, Tensor]:
        """Send one row to a component and return the wanted outputs.

        Args:
            model: Name of the component.
            inputs: Tensors by name, without the batch dimension.
            wanted: Names of the outputs.
            parameters: Request parameters.
            timeout_s: Longest time in the component's queue, in seconds; None for no limit.
            place: Place of the call in the component's stream; None outside streams.

        Raises:
            ComponentAwayError: the component's process died, or it no longer knows the stream.
            ComponentError: the component answered with an error.
            OverloadedError: the component has no place for another stream.
            RequestCancelledError: the client gave up before the call was made.
        """
        ...

    async def is_loaded(self, model: str) -> bool:
        """Return whether the server has a component."""
        ...


async def together(jobs: Iterable[Coroutine[None, None, Result]]) -> list[Result]:
    """Run coroutines at the same time; the first error cancels the others and is raised unchanged.

    Args:
        jobs: The coroutines.
    """
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(job) for job in jobs]
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [task.result() for task in tasks]


class Calls:
    """The calls of one row to components, within the deadline of its request.

    Each call is made only while the request has time left. The remaining time is the longest time
    that the call may wait in the component's queue. A call whose component dies is repeated when
    the component is back, unless it goes on with a stream, which the component has lost.
    """

    def __init__(
        self,
        components: Components,
        deadline_ms: int,
        metrics: Metrics,
        mode: str,
        absences: Absences,
    ) -> None:
        """Start the request's clock.

        Args:
            components: The components to call.
            deadline_ms: Time budget from now on, in milliseconds; 0 for none.
            metrics: Where the calls are counted.
            mode: Label of the path in the metrics.
            absences: The components that are away, for all requests.
        """
        self._components, self._absences = components, absences
        self._metrics, self._mode = metrics, mode
        self._deadline_ms = deadline_ms
        self._started = time.perf_counter()
        self._stages: dict[str, Stage] = {}
        self._loaded: dict[str, bool] = {}

    async def __call__(
        self,
        model: str,
        inputs: Mapping[str, Array | Tensor],
        wanted: Sequence[str],
        parameters: Mapping[str, Parameter] | None = None,
        place: StreamPlace | None = None,
    ) -> Mapping[str, Tensor]:
        """Call a component; see `Components.call`.

        Raises:
            DeadlineError: the time of the request is over.
            ComponentAwayError: the component died, and the call cannot be repeated, or it was in
                vain.
            ComponentError: the component answered with an error.
            OverloadedError: the component has no place for another stream.
            RequestCancelledError: the client gave up before the call was made.
        """
        self.remaining_s(f"before {model} was called")
        started = time.perf_counter()
        # Of calls side by side, the one that is made first is the first in `path`.
        self._stages.setdefault(model, Stage(0, 0.0))
        is_made = True

        async def call() -> Mapping[str, Tensor]:
            timeout_s = self.remaining_s(f"before {model} was called")
            if place is not None and place.starts:
                timeout_s = min(timeout_s or START_PATIENCE_S, START_PATIENCE_S)
            return await self._components.call(
                model, inputs, wanted, parameters or {}, timeout_s, place
            )

        try:
            return await self._repeated(model, call, in_stream=bool(place and not place.starts))
        except MissingModelError:
            is_made = False
            raise
        except (ComponentError, OverloadedError):
            # A queue may drop a call shortly before the deadline on the request's own clock.
            self.remaining_s(f"while {model} was called")
            raise
        except RequestCancelledError:
            is_made = False
            raise
        finally:
            if is_made:
                self._count(model, time.perf_counter() - started)

    async def _repeated(
        self, model: str, call: Callable[[], Coroutine[None, None, Result]], *, in_stream: bool
    ) -> Result:
        """Make a call, and again after an absence of its component.

        Args:
            model: Name of the component.
            call: Makes the call.
            in_stream: Whether the call goes on with a stream, which the component then has lost.

        Raises:
            ComponentAwayError: the component is away.
        """
        if self._absences.is_away(model):
            if in_stream:
                raise ComponentAwayError(f"{model} is being replaced: START the stream again")
            await self._back(model)
        repeat = 0
        while True:
            began = asyncio.get_running_loop().time()
            try:
                with self._counting_repeat(model, repeat):
                    return await self._absences.call(model, call())
            except StreamLostError:
                raise
            except (ComponentAwayError, MissingModelError) as error:
                if isinstance(error, MissingModelError) and not self._absences.knows(model):
                    raise
                self._absences.begin(model, began)
                if in_stream:
                    raise ComponentAwayError(f"{error}: START the stream again") from error
                is_hung = isinstance(error, ComponentHungError)
                if repeat >= (MAX_REPEATS_HUNG if is_hung else MAX_REPEATS):
                    raise
            await self._back(model)
            repeat += 1

    async def _back(self, model: str) -> None:
        """Wait for a component that is away.

        Raises:
            ComponentAwayError: it has not come back.
        """
        if not await self._absences.over(model):
            raise ComponentAwayError(
                f"{model} has died or is being replaced, and was not back within {PATIENCE_S:g} s; "
                "try again"
            )

    @contextmanager
    def _counting_repeat(self, model: str, repeat: int) -> Iterator[None]:
        if not repeat:
            yield
            return
        how = "ok"
        try:
            yield
        except BaseException as error:
            how = outcome(error)
            raise
        finally:
            self._metrics.add(CALLS_REPEATED, component=model, outcome=how)

    async def is_loaded(self, model: str) -> bool:
        """Return whether the server has a component; it is asked once."""
        if model not in self._loaded:
            self._loaded[model] = await self._absences.is_loaded(model)
        return self._loaded[model]

    def remaining_s(self, when: str) -> float | None:
        """Return the seconds left, or None without a deadline.

        Args:
            when: End of the error's message, such as "before vad was called".

        Raises:
            DeadlineError: no time is left.
        """
        if not self._deadline_ms:
            return None
        remaining = self._deadline_ms / 1000 - (time.perf_counter() - self._started)
        if remaining <= 0:
            raise deadline_error(self._deadline_ms, when)
        return remaining

    @property
    def path(self) -> tuple[str, ...]:
        """Components that were called so far, in order of first use."""
        return tuple(self._made)

    @property
    def stages(self) -> dict[str, Stage]:
        """Calls by component so far, and `total` since the arrival of the request."""
        made = self._made
        total = Stage(sum(stage.calls for stage in made.values()), self._elapsed_ms())
        return {**made, "total": total}

    @property
    def _made(self) -> dict[str, Stage]:
        return {model: stage for model, stage in self._stages.items() if stage.calls}

    def adopt(self, others: "Calls") -> None:
        """Take the calls that `others` made so far for own ones, for `path` and `stages`."""
        for model, stage in others._stages.items():
            own = self._stages.get(model, Stage(0, 0.0))
            self._stages[model] = Stage(own.calls + stage.calls, round(own.ms + stage.ms, 3))
        others._stages.clear()

    def count(self, family: Family, value: float = 1.0, /, **labels: str) -> None:
        """Add a value to a metric.

        Args:
            family: The metric.
            value: The value, not negative.
            **labels: A value for each label of the metric.
        """
        self._metrics.add(family, value, **labels)

    def _elapsed_ms(self) -> float:
        return round((time.perf_counter() - self._started) * 1000, 3)

    def _count(self, model: str, seconds: float) -> None:
        stage = self._stages.get(model, Stage(0, 0.0))
        self._stages[model] = Stage(stage.calls + 1, round(stage.ms + seconds * 1000, 3))
        self._metrics.add(CALLS, mode=self._mode, component=model)
        self._metrics.add(CALL_SECONDS, seconds, mode=self._mode, component=model)


@asynccontextmanager
async def within_deadline(deadline_ms: int, calls: Calls) -> AsyncIterator[None]:
    """Cancel the block when the time of the request is over.

    Args:
        deadline_ms: Time budget in milliseconds; 0 for none.
        calls: Calls of the request, to name the latest component in the error.

    Raises:
        DeadlineError: the time is over. A DeadlineError from a call inside is raised unchanged,
            because its message is more precise.
    """
    try:
        async with asyncio.timeout(deadline_ms / 1000 or None) as scope:
            yield
    except TimeoutError as error:
        if isinstance(error, DeadlineError) or not scope.expired():
            raise
        latest = next(reversed(calls.path), "the first call")
        raise deadline_error(deadline_ms, f"in {latest}") from None
