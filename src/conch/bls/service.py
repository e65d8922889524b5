"""The interface of a BLS service: it reads a request, runs it with calls, and yields answers."""

import time
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Protocol, TypeVar

from conch.bls.access_log import AccessRecord
from conch.bls.call import Components
from conch.bls.metrics import Metric
from conch.component import Array
from conch.wire.errors import TranscriptionError

Answer = Mapping[str, Array]
"""Output tensors by name, with the batch dimension first where the service has one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestHeader:
    """The fields of a request besides its tensors."""

    model: str = ""
    outputs: tuple[str, ...] = ()
    """Names of the tensors that the client requests."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Options, not checked yet."""
    request_id: str = ""
    """Id of the request, safe in a log."""
    stream_id: int | str = 0
    """Sequence id of a live chunk; 0 or "" for a recording."""
    starts: bool = False
    """Whether it is the first chunk of a live stream."""
    ends: bool = False
    """Whether it is the last chunk of a live stream."""
    is_decoupled: bool = False
    """Whether the model is decoupled: the request may have any number of answers."""
    trace: Mapping[str, str] = field(default_factory=dict)
    """W3C trace context, empty for a request that is not sampled."""
    arrived: float = field(default_factory=time.monotonic)
    """When the request arrived, on this machine's monotonic clock."""

    def header_fields(self) -> dict[str, Any]:
        """Return the fields of this class by name; a subclass has more."""
        return {item.name: getattr(self, item.name) for item in fields(RequestHeader)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Message(RequestHeader):
    """A request as it reaches a BLS model."""

    read_inputs: Callable[[], Mapping[str, Array]]
    """Return the tensors by name, with the batch dimension first."""


class Responder(Protocol):
    """Sends the answers of one request to its client. Any thread may use it."""

    def is_cancelled(self) -> bool:
        """Return whether the client has given up."""
        ...

    def send(self, answer: Answer) -> None: ...

    def fail(self, error: TranscriptionError) -> None:
        """Send an error; only `end` may follow."""
        ...

    def end(self) -> None:
        """End the answers. This is the last call."""
        ...


Start = Callable[[Message, Responder], None]
"""Begins to answer a request, without waiting for it."""
Request = TypeVar("Request")


class Service(Protocol[Request]):
    """A service of a BLS model."""

    @property
    def gauges(self) -> Mapping[Metric, Callable[[], float]]:
        """Functions that return the present values of metrics."""
        ...

    def parse(self, message: Message) -> Request:
        """Read a request; raise a TranscriptionError if it is wrong."""
        ...

    def run(
        self, request: Request, components: Components, record: AccessRecord
    ) -> AsyncGenerator[Answer, None]:
        """Yield the answers of a request: one, or any number if it is decoupled.

        `components` are for its calls, and `record` is its line in the access log. If it fails,
        raise a TranscriptionError; no answer follows.
        """
        ...

    async def close(self, timeout_s: float) -> None:
        """Free the service's state in the components, in `timeout_s` seconds at most."""
        ...
