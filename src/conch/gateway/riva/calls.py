"""One call of a client: its key, what it sends and gets, and what the logs say of it."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, TypeAlias

import grpc  # type: ignore[import-untyped]
from google.protobuf.message import DecodeError
from multidict import CIMultiDict

from conch.client.aio import within
from conch.client.triton_grpc import LARGE_BYTES
from conch.gateway.access import caller_with, secret_in
from conch.gateway.doors import RIVA_STREAM
from conch.gateway.errors import ApiError, api_error, invalid
from conch.gateway.file_answer import warnings_header
from conch.gateway.metrics import NOBODY, enter_trace, log_answer
from conch.gateway.riva.protocol import HEALTH, Message, Method
from conch.gateway.state import Caller, Gateway

LONGEST_UPLOAD = 2
"""Longest time for a request once it is its turn, and for its turn, in times of that for which a
client may be idle."""
HEALTH_S = 5.0
"""Longest time for a request for health."""
MAX_DETAILS = 1000
"""Characters of an error: gRPC sends it as a header."""
_CODES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    408: "DEADLINE_EXCEEDED",
    413: "INVALID_ARGUMENT",
    422: "INVALID_ARGUMENT",
    429: "RESOURCE_EXHAUSTED",
    499: "CANCELLED",
    501: "UNIMPLEMENTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
"""Names of gRPC's codes by the status of an error."""
_BY_NAME = {"model_not_loaded": "UNIMPLEMENTED", "session_expired": "ABORTED"}
"""Names of gRPC's codes by the code of an error; they override `_CODES`."""


class RpcCall:
    """A call that is being answered. Each is a stream of requests and of responses for gRPC.

    So its key is checked before anything is read, and a unary call is one of each.
    """

    def __init__(self, gateway: Gateway, method: Method, context: Any) -> None:
        self.gateway, self.method = gateway, method
        self._context = context
        pairs = context.invocation_metadata() or ()
        self.metadata: Mapping[str, str] = CIMultiDict(
            (name, value) for name, value in pairs if isinstance(value, str)
        )
        self.request_id = enter_trace(self.metadata)
        self.id: Message = None
        """The id that the latest request with one has, for the responses; None without any."""
        self.fields: Mapping[str, str] = {}
        """Fields of the request that have set options, by option, for errors of the server."""
        self.warnings: list[str] = []
        """Warnings for the client, which are sent with the end of the call."""
        self._caller: Caller | None = None

    @property
    def caller(self) -> Caller:
        """Who calls, after `check_key`."""
        assert self._caller is not None
        return self._caller

    @property
    def caller_name(self) -> str:
        return self._caller.name if self._caller else NOBODY

    def check_key(self) -> None:
        """Find out who calls; raise an ApiError without a key that is needed."""
        self._caller = caller_with(self.gateway, secret_in(self.metadata))

    async def requests(self) -> AsyncIterator[Message]:
        """Yield the requests; raise an ApiError if one is of another type."""
        while (data := await self._context.read()) is not grpc.aio.EOF:
            large = len(data) > LARGE_BYTES
            yield await asyncio.to_thread(self._parsed, data) if large else self._parsed(data)

    async def request(self) -> Message:
        """Return the only request; raise an ApiError if none comes in time."""
        if (message := await self.next_request()) is None:
            raise invalid(None, "the call has no request")
        return message

    async def next_request(self) -> Message:
        """Return the next request, None at the end; raise an ApiError if none comes in time."""
        # gRPC shows a message when it is complete: how fast it comes cannot be seen. So few are
        # read at once, each of which may fill as much memory as the largest file. Those for health
        # are small, and must not wait for the others.
        within_s = LONGEST_UPLOAD * self.gateway.config.times.idle_s
        turn: AbstractAsyncContextManager[None] = self.gateway.reading
        if self._caller is None:
            within_s, turn = HEALTH_S, nullcontext()
        late = ApiError(408, f"no request came within {within_s:g} s")
        with self.gateway.call_of(self._caller):
            async with within(2 * within_s, late), turn, within(within_s, late):
                return await anext(self.requests(), None)

    def _parsed(self, data: bytes) -> Message:
        try:
            message = self.method.request.FromString(data)
        except DecodeError:
            name = self.method.request.DESCRIPTOR.name
            raise invalid(None, f"a message of the call is no {name}") from None
        if "id" in self.method.request.DESCRIPTOR.fields_by_name and message.HasField("id"):
            self.id = message.id
        return message

    async def send(self, response: Message) -> None:
        """Send a response with the request's id; raise an ApiError if the client takes nothing."""
        if self.id is not None:
            response.id.CopyFrom(self.id)
        late = ApiError(499, "the client does not read", code="cancelled")
        async with within(self.gateway.config.times.send_s, late):
            await self._context.write(response.SerializeToString())

    async def begin(self) -> None:
        """Send the head of the answer."""
        await self._context.send_initial_metadata((("x-request-id", self.request_id),))

    async def end(self, error: ApiError | None) -> None:
        headers = {**(error.headers if error else {}), **warnings_header(self.warnings)}
        trailers = tuple((name.lower(), value) for name, value in headers.items())
        if error is None:
            self._context.set_trailing_metadata(trailers)
        else:
            code = getattr(grpc.StatusCode, code_of(error))
            await self._context.abort(code, str(error)[:MAX_DETAILS], trailers)


Answer: TypeAlias = Callable[[RpcCall], Awaitable[None]]


def code_of(error: ApiError) -> str:
    """Return the name of gRPC's code of an error."""
    return _BY_NAME.get(error.code or "") or _CODES.get(error.status, "INTERNAL")


async def observed(call: RpcCall, answer: Answer) -> None:
    """Answer a call; turn errors into its status, and count and log the outcome."""
    metrics, route = call.gateway.metrics, call.method.path
    is_open = route.startswith(f"/{HEALTH}/")  # as /health of HTTP
    began, code, error = time.monotonic(), "CANCELLED", None
    try:
        await call.begin()
        if not is_open:
            call.check_key()
        await answer(call)
        code = "OK"
    except asyncio.CancelledError:
        metrics.cancelled.labels(route).inc()
        raise
    except Exception as failure:
        error = api_error(failure)
        if field := call.fields.get(error.param or ""):
            error.args = (f"{field}: {error}",)
        code = code_of(error)
    finally:
        seconds, name = time.monotonic() - began, call.caller_name
        if route == RIVA_STREAM.address:
            metrics.sessions_ended.labels(route, name, code).inc()
        else:
            metrics.requests.labels(route, code, name).inc()
            metrics.request_seconds.labels(route).observe(seconds)
        log_answer(
            *(call.request_id, "gRPC", route, code, name, seconds),
            error=error,
            is_cancelled=code == "CANCELLED",
            level=logging.DEBUG if is_open else logging.INFO,
        )
    await call.end(error)
