"""The calls of one request.

A call passes these steps on its way to Triton and back, the first one outermost:

    calls(model, inputs, outputs)        counted and timed, within the deadline      this file
      Failover                           repeated if a component died or hung        failover.py
      RecordingTurns or without_waiting  concurrency limits, fair order              concurrency.py
      TritonComponents                   client gone?, hang, trace, BLS              conch.triton
"""

import asyncio
import time
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from types import MappingProxyType
from typing import TypeVar

from conch.bls.call import (
    Call,
    Components,
    Deadline,
    Outputs,
    Parameter,
    Policy,
    Send,
    TensorHandle,
)
from conch.bls.failover import Failover
from conch.bls.metrics import CALL_SECONDS, CALLS, Metric, Metrics
from conch.component import Array
from conch.wire.entry_points import ChunkPosition
from conch.wire.errors import (
    ComponentError,
    MissingModelError,
    OverloadedError,
    RequestCancelledError,
)
from conch.wire.result import Stage

Result = TypeVar("Result")
NONE = Stage(0, 0.0)


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
        failover: Failover,
        metrics: Metrics,
        mode: str,
        deadline: Deadline,
        copies: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """The first of `policies` is outermost; `copies` are models that stand for components."""
        self.deadline = deadline
        self._copies = copies
        self._send: Send = components.call
        for policy in reversed(policies):
            self._send = partial(policy, proceed=self._send)
        self._failover, self._metrics, self._mode = failover, metrics, mode
        self._loaded: dict[str, bool] = {}
        self._began = time.perf_counter()
        self._stages: dict[str, Stage] = {}

    async def __call__(
        self,
        model: str,
        inputs: Mapping[str, Array | TensorHandle],
        outputs: Sequence[str],
        parameters: Mapping[str, Parameter] | None = None,
        sequence: ChunkPosition | None = None,
        work: int = 1,
    ) -> Outputs:
        """Return the outputs of a component for one row; raise as `Components.call` does."""
        model = self._copies.get(model, model)
        self.deadline.remaining_s(f"before {model} was called")
        call = Call(model, inputs, outputs, parameters or {}, sequence, self.deadline, work)
        # Before the call: `path` has the order in which calls were made, not answered.
        self._stages.setdefault(model, NONE)
        began, is_made = time.perf_counter(), True
        try:
            return await self._send(call)
        except (MissingModelError, RequestCancelledError):
            is_made = False
            raise
        except (ComponentError, OverloadedError):
            # A queue may drop a call shortly before the request's own clock reaches the deadline.
            self.deadline.remaining_s(f"while {model} was called")
            raise
        finally:
            if is_made:
                seconds = time.perf_counter() - began
                self._add(model, Stage(1, seconds * 1000))
                self._metrics.add(CALLS, mode=self._mode, component=model)
                self._metrics.add(CALL_SECONDS, seconds, mode=self._mode, component=model)

    def limited(self) -> AbstractAsyncContextManager[None]:
        """Cancel a block when the time of the request is over; see `Deadline.limiting`."""
        return self.deadline.limiting(lambda: self.path)

    @property
    def path(self) -> tuple[str, ...]:
        """Components that were called so far, in order of first use."""
        return tuple(self._made)

    @property
    def stages(self) -> dict[str, Stage]:
        """Calls by component so far, and `total` since the arrival of the request."""
        made = self._made
        elapsed_ms = round((time.perf_counter() - self._began) * 1000, 3)
        return {**made, "total": Stage(sum(stage.calls for stage in made.values()), elapsed_ms)}

    def adopt(self, others: "Calls") -> None:
        """Move the counts of other calls here."""
        for model, stage in others._stages.items():
            self._add(model, stage)
        others._stages.clear()

    async def need(self, models: Iterable[str]) -> None:
        """Load components that the request needs; see `Failover.need`."""
        await self._failover.need(self._served(models))

    async def is_loaded(self, model: str) -> bool:
        """Return whether the server has a component; it is asked once.

        One that is loaded on demand is loaded; see `Failover.is_loaded`.
        """
        (served,) = self._served((model,))
        if served not in self._loaded:
            self._loaded[served] = await self._failover.is_loaded(served)
        return self._loaded[served]

    async def has(self, *models: str) -> bool:
        """Return whether the server has all of these components now; this loads none."""
        there = [await self._failover.is_loaded(one, loads=False) for one in self._served(models)]
        return all(there)

    def count(self, family: Metric, value: float = 1.0, /, **labels: str) -> None:
        """Add a value, not negative, to a metric with a value for each of its labels."""
        self._metrics.add(family, value, **labels)

    def _served(self, models: Iterable[str]) -> list[str]:
        return [self._copies.get(model, model) for model in models]

    @property
    def _made(self) -> dict[str, Stage]:
        return {model: stage for model, stage in self._stages.items() if stage.calls}

    def _add(self, model: str, stage: Stage) -> None:
        total = self._stages.get(model, NONE) + stage
        self._stages[model] = Stage(total.calls, round(total.ms, 3))
