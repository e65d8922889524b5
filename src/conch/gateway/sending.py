"""Send answers in a bounded time: a client may stop reading at any moment."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from aiohttp import web

from conch.client.timeouts import timeout
from conch.gateway.access import cors_headers
from conch.gateway.state import GATEWAY, REQUEST_ID

LEAST_BYTES_PER_S = 16_000
"""Slowest client to whom a whole answer is sent, beside the seconds for a part of one."""


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

    def __init__(self, request: web.Request, kind: str, headers: Mapping[str, str]) -> None:
        own = {"Content-Type": kind, "Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
        own["x-request-id"] = request[REQUEST_ID]
        super().__init__(headers={**own, **headers, **cors_headers(request)})
        self._asked = request

    async def write(self, data: bytes | bytearray | memoryview) -> None:
        await sent_in_time(super().write(data), self._asked)

    async def write_eof(self, data: bytes = b"") -> None:
        await sent_in_time(super().write_eof(data), self._asked)
