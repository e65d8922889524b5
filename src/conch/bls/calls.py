"""The calls of one request.

A call passes these steps on its way to Triton and back, the first one outermost:

    calls(model, inputs, outputs)        a path asks for a component
      within the deadline                no call without time left        this file
      Stages                             counted and timed                stages.py
      Failover                           repeated if a component died     failover.py
      RecordingTurns or WithoutWaiting   concurrency limits, fair order   concurrency.py
      TritonComponents                   client gone?, hang, trace, BLS   conch.triton.components
"""

import asyncio
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TypeVar

from conch.bls.availability import Availability
from conch.bls.call import Call, Components, Outputs, Parameter, Policy, Tensor, through
from conch.bls.deadline import Deadline
from conch.bls.metrics import Metric, Metrics
from conch.bls.stages import Stages
from conch.component import Array
from conch.wire.errors import ComponentError, MissingModelError, OverloadedError
from conch.wire.result import Stage
from conch.wire.stream_place import StreamPlace

Result = TypeVar("Result")


async def together(jobs: Iterable[Coroutine[None, None, Result]]) -> list[Result]:
    """Run coroutines at the same time; the first error cancels the others and is raised as is."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(job) for job in jobs]
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [task.result() for task in tasks]


class Calls:
    """The calls of one row or live chunk to components."""

    def __init__(
        self,
        components: Components,
        policies: Sequence[Policy],
        availability: Availability,
        metrics: Metrics,
        mode: str,
        deadline: Deadline | None = None,
    ) -> None:
        """Call nothing yet.

        Args:
            components: The components to call.
            policies: Steps of a call after the deadline and the count, the first one outermost.
            availability: Which components the server has.
            metrics: Sums of all requests.
            mode: Label of the path in the metrics.
            deadline: Time budget; None for no limit.
        """
        self.deadline = deadline or Deadline()
        self._counted = Stages(metrics, mode)
        self._send = through((self._counted, *policies), components)
        self._availability, self._metrics = availability, metrics
        self._loaded: dict[str, bool] = {}

    async def __call__(
        self,
        model: str,
        inputs: Mapping[str, Array | Tensor],
        outputs: Sequence[str],
        parameters: Mapping[str, Parameter] | None = None,
        place: StreamPlace | None = None,
        work: int = 1,
    ) -> Outputs:
        """Return the outputs of a component for one row.

        Args:
            model: Name of the component.
            inputs: Tensors by name, without the batch dimension.
            outputs: Names of the tensors to return.
            parameters: Parameters of the component's request.
            place: Place of the call in the component's stream; None outside streams.
            work: Work of the component for each byte of input, compared with its simplest call.

        Raises:
            ComponentAwayError: the component died, and another try is impossible or failed too.
            ComponentError: the component answered with an error.
            DeadlineError: the time of the request is over.
            OverloadedError: the component has no place for another stream.
            RequestCancelledError: the client gave up before the call was made.
        """
        self.deadline.remaining_s(f"before {model} was called")
        call = Call(model, inputs, outputs, parameters or {}, place, self.deadline, work)
        try:
            return await self._send(call)
        except MissingModelError:
            raise
        except (ComponentError, OverloadedError):
            # A queue may drop a call shortly before the request's own clock reaches the deadline.
            self.deadline.remaining_s(f"while {model} was called")
            raise

    def limited(self) -> AbstractAsyncContextManager[None]:
        """Cancel a block when the time of the request is over; see `Deadline.limiting`."""
        return self.deadline.limiting(lambda: self.path)

    @property
    def path(self) -> tuple[str, ...]:
        """Components that were called so far, in order of first use."""
        return self._counted.path

    @property
    def stages(self) -> dict[str, Stage]:
        """Calls by component so far, and `total` since the arrival of the request."""
        return self._counted.summary()

    def adopt(self, others: "Calls") -> None:
        """Move the counts of other calls here."""
        self._counted.adopt(others._counted)

    async def is_loaded(self, model: str) -> bool:
        """Return whether the server has a component; it is asked once."""
        if model not in self._loaded:
            self._loaded[model] = await self._availability.is_loaded(model)
        return self._loaded[model]

    def count(self, family: Metric, value: float = 1.0, /, **labels: str) -> None:
        """Add a value to a metric.

        Args:
            family: The metric.
            value: The value, not negative.
            **labels: A value for each label of the metric.
        """
        self._metrics.add(family, value, **labels)
