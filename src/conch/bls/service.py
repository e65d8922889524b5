"""The interface of a BLS service: requests, answers, and their lines in the access log."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Protocol, TypeVar

from conch.bls.call import Components
from conch.bls.metrics import Metric
from conch.component import Array
from conch.wire.access import MAX_ERROR, log_access
from conch.wire.errors import OverloadedError, RequestCancelledError, TranscriptionError
from conch.wire.result import Stage

Answer = Mapping[str, Array]
"""Output tensors by name, with the batch dimension first where the service has one."""
NO_MODE = "none"
"""Mode of a request that has no path yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestHeader:
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
    read_inputs: Callable[[], Mapping[str, Array]]
    """Return the tensors by name, with the batch dimension first."""


class Responder(Protocol):
    """Sends the answers of one request to its client. Any thread may use it."""

    def is_cancelled(self) -> bool:
        """Return whether the client has given up."""

    def send(self, answer: Answer) -> None: ...

    def fail(self, error: TranscriptionError) -> None:
        """Send an error; only `end` may follow."""

    def end(self) -> None:
        """End the answers. This is the last call."""


class AccessRecord:
    """The line of a request or a stream in the access log, as it grows.

    Fields: `request` (the id), `model`, `mode`, `audio_s`, `ms` since the beginning, those of the
    service, `path` (components in order of first use), `calls` (number), `call_ms` (time in calls,
    queues included), and `error` (the message). `outcome` is `ok`, an error's code, or how a live
    stream ended.
    """

    def __init__(self, request_id: str, model: str, mode: str = NO_MODE) -> None:
        """`request_id` is safe in a log."""
        self._request_id, self._model, self.mode = request_id, model, mode
        self._began = time.perf_counter()
        self._stages: dict[str, Stage] = {}
        self._is_logged = False
        self.audio_s = 0.0
        self.fields: dict[str, int] = {}

    def called(self, stages: Mapping[str, Stage]) -> None:
        """Add the calls that were made for an answer, as `Calls.stages` counts them."""
        for model, stage in stages.items():
            if model != "total":
                self._stages[model] = self._stages.get(model, Stage(0, 0.0)) + stage

    def leave_out(self) -> None:
        """Write no line: the request is part of a stream, which has one, or a health check."""
        self._is_logged = True

    def log(self, error: BaseException | None = None, outcome: str = "ok") -> None:
        """Write the line, unless it is written; without an error it has `outcome`."""
        if self._is_logged:
            return
        self._is_logged = True
        stages = self._stages.values()
        fields = {
            "request": self._request_id,
            "model": self._model,
            "mode": self.mode,
            "outcome": outcome if error is None else code_of(error),
            "audio_s": round(self.audio_s, 3),
            "ms": round((time.perf_counter() - self._began) * 1000, 3),
            **self.fields,
            "path": list(self._stages),
            "calls": sum(stage.calls for stage in stages),
            "call_ms": round(sum(stage.ms for stage in stages), 3),
        }
        # The message of any other error may be confidential; only the server's log has it.
        if isinstance(error, TranscriptionError):
            fields["error"] = str(error)[:MAX_ERROR]
        log_access(fields)


def code_of(error: BaseException) -> str:
    if isinstance(error, TranscriptionError):
        return error.code
    if isinstance(error, asyncio.CancelledError):  # the model is being unloaded
        return OverloadedError.code
    is_closed = isinstance(error, GeneratorExit)
    return RequestCancelledError.code if is_closed else TranscriptionError.code


Start = Callable[[Message, Responder], None]
"""Begins to answer a request, without waiting for it."""
Request = TypeVar("Request")


class Service(Protocol[Request]):
    @property
    def gauges(self) -> Mapping[Metric, Callable[[], float]]:
        """Functions that return the present values of metrics."""

    def parse(self, message: Message) -> Request:
        """Read a request; raise a TranscriptionError if it is wrong."""

    def run(
        self, request: Request, components: Components, record: AccessRecord
    ) -> AsyncGenerator[Answer, None]:
        """Yield the answers of a request: one, or any number if it is decoupled.

        `components` are for its calls, and `record` is its line in the access log. If it fails,
        raise a TranscriptionError; no answer follows.
        """

    async def close(self, timeout_s: float) -> None:
        """Free the service's state in the components, in `timeout_s` seconds at most."""
