"""The calls of one request to the components: within its deadline, counted and timed."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Protocol

from conch.component import Array
from conch.orchestrator.metrics import CALL_SECONDS, CALLS, Family, Metrics
from conch.wire.errors import (
    ComponentError,
    DeadlineError,
    MissingModelError,
    RequestCancelledError,
)
from conch.wire.result import Stage
from conch.wire.stream_place import StreamPlace

Parameter = bool | int | str


def deadline_error(deadline_ms: int, moment: str) -> DeadlineError:
    """Return the error of a request that ran out of time; the message names the moment."""
    return DeadlineError(f"deadline_ms of {deadline_ms} ran out {moment}")


class Tensor(Protocol):
    """An output that stays where the component left it until somebody reads it."""

    def numpy(self) -> Array:
        """Return the content on the host, without the batch dimension."""
        ...


class Components(Protocol):
    """The component models, as the orchestrator sees them."""

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

        Raises:
            ComponentError: the component answered with an error.
            RequestCancelledError: the client gave up before the call was made.
        """
        ...


class Calls:
    """What one row's path calls components through.

    Each call is made only while the request has time left, and carries what is left as the
    longest time it may wait in the component's queue.
    """

    def __init__(
        self, components: Components, deadline_ms: int, metrics: Metrics, mode: str
    ) -> None:
        """Start the request's clock.

        Args:
            components: to call.
            deadline_ms: from now on; 0 is no deadline.
            metrics: to count the calls in, …
            mode: … as calls of this path.
        """
        self._components = components
        self._metrics, self._mode = metrics, mode
        self._deadline_ms = deadline_ms
        self._started = time.perf_counter()
        self._stages: dict[str, Stage] = {}

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
            DeadlineError: the request's time is up.
        """
        remaining_s = self.remaining_s(f"before {model} was called")
        started = time.perf_counter()
        is_made = True
        try:
            return await self._components.call(
                model, inputs, wanted, parameters or {}, remaining_s, place
            )
        except MissingModelError:
            is_made = False
            raise
        except ComponentError:
            # A queue that drops a call whose time is up may be ahead of the request's own clock.
            self.remaining_s(f"while {model} was called")
            raise
        except RequestCancelledError:
            is_made = False
            raise
        finally:
            if is_made:
                self._count(model, time.perf_counter() - started)

    def remaining_s(self, moment: str) -> float | None:
        """Return the seconds left, or None without a deadline.

        Raises:
            DeadlineError: none are left; the message names the moment.
        """
        if not self._deadline_ms:
            return None
        remaining = self._deadline_ms / 1000 - (time.perf_counter() - self._started)
        if remaining <= 0:
            raise deadline_error(self._deadline_ms, moment)
        return remaining

    @property
    def path(self) -> tuple[str, ...]:
        """The components called so far, in order of first use."""
        return tuple(self._stages)

    @property
    def stages(self) -> dict[str, Stage]:
        """What each component cost so far, and the total since the request came."""
        total = Stage(sum(stage.calls for stage in self._stages.values()), self._elapsed_ms())
        return {**self._stages, "total": total}

    def count(self, family: Family, value: float = 1.0, /, **labels: str) -> None:
        """Add to a metric of the path."""
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
    """End what runs inside once the request's time is up; a `deadline_ms` of 0 is no deadline.

    Raises:
        DeadlineError: it was. One that a call inside raises says more, and passes as it is.
    """
    try:
        async with asyncio.timeout(deadline_ms / 1000 or None) as scope:
            yield
    except TimeoutError as error:
        if isinstance(error, DeadlineError) or not scope.expired():
            raise
        latest = next(reversed(calls.path), "the first call")
        raise deadline_error(deadline_ms, f"in {latest}") from None
