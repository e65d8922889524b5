"""One call of a component: its time budget, its errors, and the steps that it passes."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Protocol

from conch.component import Array
from conch.wire.entry_points import ChunkPosition
from conch.wire.errors import ComponentError, DeadlineError

START_PATIENCE_S = 5.0
"""Longest wait of a stream's START for a slot in a component, in seconds. Triton itself sets no
limit: the START would wait until another stream ends."""
Parameter = bool | int | str
UNLOADED = "the model is being unloaded; try again"
BEFORE_CALLS = "before the first call"
"""Part of the message if the time is over before any call of a component: one may still load."""


class Deadline:
    """A time budget, which starts when it is made."""

    def __init__(
        self,
        budget_ms: int = 0,
        clock: Callable[[], float] = time.monotonic,
        started: float | None = None,
    ) -> None:
        """Start the clock, or take when it `started`; a budget of 0 ms has no limit."""
        self._budget_ms, self._clock = budget_ms, clock
        self._started = clock() if started is None else started

    def remaining_s(self, when: str) -> float | None:
        """Return the seconds left, None for no limit, or raise a DeadlineError with `when`."""
        if not self._budget_ms:
            return None
        left_s = self._budget_ms / 1000 - (self._clock() - self._started)
        if left_s <= 0:
            raise self._error(when)
        return left_s

    @asynccontextmanager
    async def limiting(self, path: Callable[[], Sequence[str]]) -> AsyncIterator[None]:
        """Cancel the block when the time is over, and raise a DeadlineError.

        It names the latest component of `path`. The DeadlineError of a call inside is raised
        unchanged, because its message is more precise.
        """
        try:
            async with asyncio.timeout(self.remaining_s(BEFORE_CALLS)) as scope:
                yield
        except TimeoutError as error:
            if isinstance(error, DeadlineError) or not scope.expired():
                raise
            called = path()
            raise self._error(f"in {called[-1]}" if called else BEFORE_CALLS) from None

    def _error(self, when: str) -> DeadlineError:
        return DeadlineError(f"deadline_ms of {self._budget_ms} ran out {when}")


class TensorHandle(Protocol):
    """An output tensor of a component, in the memory where the component left it."""

    def numpy(self) -> Array:
        """Return the content in host memory, without the batch dimension."""


Outputs = Mapping[str, TensorHandle]


@dataclass(frozen=True, slots=True)
class Call:
    """One row for a component, and the names of the outputs to return."""

    model: str
    inputs: Mapping[str, Array | TensorHandle]
    """Tensors by name, without the batch dimension."""
    outputs: Sequence[str]
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    sequence: ChunkPosition | None = None
    """Which of the component's sequences it belongs to; None outside sequences."""
    deadline: Deadline = field(default_factory=Deadline)
    work: int = 1
    """Work of the component for each byte of input, compared with its simplest call."""

    @property
    def continues_stream(self) -> bool:
        """Whether the component must know the stream already."""
        return self.sequence is not None and not self.sequence.starts

    def queue_timeout_s(self) -> float | None:
        """Return the longest time in the queue in seconds, None for no limit."""
        left_s = self.deadline.remaining_s(f"before {self.model} was called")
        if self.sequence is None or not self.sequence.starts:
            return left_s
        return START_PATIENCE_S if left_s is None else min(left_s, START_PATIENCE_S)


Send = Callable[[Call], Awaitable[Outputs]]


class Policy(Protocol):
    """A step that every call of a request passes."""

    async def __call__(self, call: Call, proceed: Send) -> Outputs:
        """Send a call on by `proceed`, once, several times or not at all."""


class Components(Protocol):
    async def call(self, call: Call) -> Outputs:
        """Return the outputs of a component for one row.

        Raises:
            ComponentAwayError: the component's process died, or it no longer knows the stream.
            ComponentError: the component answered with an error.
            DeadlineError: the request has no time left.
            MissingModelError: the server does not have the component.
            OverloadedError: the component has no place for another stream.
            RequestCancelledError: the client gave up before the call was made.
        """

    async def is_loaded(self, model: str) -> bool:
        """Return whether the server has a component."""

    def give_up(self, model: str) -> None:
        """Raise ComponentAwayError from the calls in flight of a component that was replaced."""


class ComponentAwayError(ComponentError):
    """A component has died or is being replaced: a call may be repeated, streams are lost."""


class ComponentHungError(ComponentAwayError):
    """A component did not answer this call and was ended: the call may be the cause."""


class StreamLostError(ComponentAwayError):
    """A component does not know a stream that was open."""
