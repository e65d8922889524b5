"""Bodies of requests and answers over HTTP, within limits of size, time and depth."""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from aiohttp import web

from conch.client.aio import timeout, within
from conch.gateway.access import cors_headers
from conch.gateway.errors import ApiError, invalid
from conch.gateway.state import GATEWAY, REQUEST_ID
from conch.wire.result import Transcript, strict_json
from conch.wire.synthesis import Spoken

MAX_DEPTH = 32
"""Objects and lists inside one another."""
MAX_MARKS = 10_000
"""Commas, and beginnings of objects and lists, outside of texts: two bytes of them may take a
hundred in memory."""
_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)', re.DOTALL)
"""A string of JSON, or the rest of the body if it has no end: so the search runs once."""

LEAST_BYTES_PER_S = 16_000
"""Slowest client to whom a whole answer is sent, beside the seconds for a part of one."""


def read_json(text: str) -> Any:
    """Return the value of JSON; raise a ValueError if wrong, or above MAX_MARKS or MAX_DEPTH."""
    if _marks(text) > MAX_MARKS and _marks(_STRING.sub("", text)) > MAX_MARKS:
        raise ValueError(f"it takes at most {MAX_MARKS} commas, lists and objects")
    try:
        value = json.loads(text)
        is_deep = _is_deep(value)
    except RecursionError:
        is_deep = True
    if is_deep:
        raise ValueError(f"it takes lists and objects nested at most {MAX_DEPTH} deep")
    return value


def _marks(text: str) -> int:
    return sum(map(text.count, ",[{"))


def _is_deep(value: Any) -> bool:
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(MAX_DEPTH):
        level = [
            child
            for item in level
            for child in (item.values() if isinstance(item, dict) else item)
            if isinstance(child, dict | list)
        ]
    return bool(level)


def read_object(body: bytes, read: Callable[[str], Any] = read_json) -> dict[str, Any]:
    """Return the JSON object of a body; raise an ApiError for anything else."""
    try:
        value = read(body.decode())
    except ValueError as error:
        raise invalid("body", f"the body takes a JSON object: {error}") from None
    if not isinstance(value, dict):
        raise invalid("body", "the body takes a JSON object")
    return value


async def body_of(request: web.Request, max_bytes: int, within_s: float) -> bytes:
    """Return the body of a request; raise an ApiError if it is larger, late, or damaged."""
    data = bytearray()
    message = f"the body did not come within {within_s:g} s"
    try:
        async with within(within_s, ApiError(408, message, param="body", code="upload_stalled")):
            while len(data) <= max_bytes and (more := await request.content.readany()):
                data += more
    except web.RequestPayloadError as error:
        raise invalid("body", f"the body is damaged: {problem_of(error)}") from None
    if len(data) > max_bytes:
        raise invalid("body", f"the body takes at most {max_bytes} bytes")
    return bytes(data)


def problem_of(error: Exception) -> str:
    """Return in one line what is wrong with a body whose encoding or chunks are damaged."""
    source = next((item for item in (error, error.__cause__) if hasattr(item, "message")), error)
    return " ".join(str(getattr(source, "message", source)).split())


async def sent_in_time(sending: Awaitable[None], request: web.Request, size: int = 0) -> None:
    """Wait until bytes are sent; or end the connection, and raise a ConnectionResetError."""
    within_s = request.app[GATEWAY].config.times.send_s + size / LEAST_BYTES_PER_S
    try:
        async with timeout(within_s):
            await sending
    except asyncio.TimeoutError:
        if request.transport is not None:
            request.transport.abort()
        raise ConnectionResetError("the client does not read") from None


@web.middleware
async def sent(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Send the answer of a handler, if it is not streamed."""
    answer = await handler(request)
    if isinstance(answer, web.Response):
        await answer.prepare(request)
        await sent_in_time(answer.write_eof(), request, answer.content_length or 0)
    return answer


class StreamedAnswer(web.StreamResponse):
    """An answer whose parts are written one by one."""

    def __init__(self, request: web.Request, content_type: str, headers: Mapping[str, str]) -> None:
        own = {"Content-Type": content_type, "Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
        own["x-request-id"] = request[REQUEST_ID]
        super().__init__(headers={**own, **headers, **cors_headers(request)})
        self._http_request = request

    async def write(self, data: bytes | bytearray | memoryview) -> None:
        await sent_in_time(super().write(data), self._http_request)

    async def write_eof(self, data: bytes = b"") -> None:
        await sent_in_time(super().write_eof(data), self._http_request)

    async def send_event(self, event: Mapping[str, Any]) -> None:
        await self.write(event_bytes(event))


def event_bytes(event: Mapping[str, Any]) -> bytes:
    """Return a server-sent event; its type is in the data, as OpenAI's clients expect."""
    texts = {
        name: value.to_json() if isinstance(value, Transcript | Spoken) else strict_json(value)
        for name, value in event.items()
    }
    data = ", ".join(f'"{name}": {text}' for name, text in texts.items())
    return f"data: {{{data}}}\n\n".encode()
