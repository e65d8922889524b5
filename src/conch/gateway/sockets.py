"""What the WebSockets of a gateway have in common: how they open, and how and why they end."""

import asyncio
from collections.abc import Coroutine

import aiohttp
from aiohttp import hdrs, web

from conch.client.timeouts import timeout
from conch.gateway.access import is_websocket
from conch.gateway.errors import ApiError, api_error
from conch.gateway.state import REQUEST_ID
from conch.wire.errors import (
    ConchError,
    InvalidRequestError,
    OverloadedError,
    ServerError,
    SessionError,
    public_error,
)

PING_S = 20.0
"""Seconds between two pings; a client has half as long to answer."""
SEND_TIMEOUT_S = 5.0
"""Seconds for a client to take the last messages and the close frame."""


def socket_for(
    request: web.Request, protocol: str, max_message_bytes: int
) -> web.WebSocketResponse:
    """Return the WebSocket that a request asks for, still to be accepted.

    Args:
        request: The request.
        protocol: Subprotocol of the route, for browsers: they may only send a key as another one.
        max_message_bytes: Largest message that a client may send.

    Raises:
        ApiError: it asks for none, or for other subprotocols only.
    """
    if not is_websocket(request):
        raise ApiError(
            426,
            f"{request.path} is a WebSocket: connect by ws:// or wss://",
            code="upgrade_required",
            headers={hdrs.UPGRADE: "websocket"},
        )
    offered = protocols_in(request)
    if offered and protocol not in offered:
        # aiohttp would log them, and one may be a key.
        raise ApiError(
            400,
            f"offer the subprotocol '{protocol}' before the one with the key, or none",
            code="unknown_subprotocol",
        )
    socket = web.WebSocketResponse(
        heartbeat=PING_S,
        compress=False,
        max_msg_size=max_message_bytes,
        protocols=(protocol,),
        timeout=SEND_TIMEOUT_S,
    )
    socket.headers["x-request-id"] = request[REQUEST_ID]
    return socket


def protocols_in(request: web.Request) -> list[str]:
    """Return the subprotocols that a client offers."""
    offered = request.headers.get(hdrs.SEC_WEBSOCKET_PROTOCOL, "")
    return [item.strip() for item in offered.split(",") if item.strip()]


async def until_one_ends(
    telling: Coroutine[None, None, None],
    reading: Coroutine[None, None, None],
    ending: Coroutine[None, None, None],
) -> Exception | None:
    """Run what a session does until its client or its text has ended; return the error, if any.

    Args:
        telling: Sends what the server hears, to the last text.
        reading: Reads the socket until it is closed.
        ending: Sees to it that `telling` ends in time.
    """
    tasks = [asyncio.create_task(item) for item in (telling, reading, ending)]
    try:
        await asyncio.wait(tasks[:2], return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return _error_of(tasks[0]) or _error_of(tasks[1])


def _error_of(task: "asyncio.Task[None]") -> Exception | None:
    """Return the error that has ended a task; None if it was cancelled or has ended well."""
    error = None if task.cancelled() else task.exception()
    if error is not None and not isinstance(error, Exception):
        raise error
    return error


async def last_moment(draining: asyncio.Event, longest_s: float) -> int:
    """Wait until a session has to end, and return the code of its close frame.

    Args:
        draining: Set once the gateway stops.
        longest_s: Longest session in seconds.
    """
    try:
        async with timeout(longest_s):
            await draining.wait()
        return int(aiohttp.WSCloseCode.GOING_AWAY)
    except asyncio.TimeoutError:
        return int(aiohttp.WSCloseCode.POLICY_VIOLATION)


def expired(longest_s: float) -> ApiError:
    """Return the error of a session that has lasted too long."""
    message = f"the session has lasted {longest_s:g} s, as long as one may: open another"
    return api_error(SessionError(message))


def told_error(error: Exception) -> ApiError:
    """Return the error that a client is told of what has ended its session."""
    if isinstance(error, ApiError):
        return error
    return api_error(error if isinstance(error, ConchError) else public_error(error))


def close_code(error: Exception) -> int:
    """Return the code of the close frame after an error (RFC 6455, section 7.4)."""
    match error:
        case ServerError() | OverloadedError():
            return int(aiohttp.WSCloseCode.TRY_AGAIN_LATER)
        case SessionError():
            return int(aiohttp.WSCloseCode.SERVICE_RESTART)
        case ApiError() | InvalidRequestError():
            return int(aiohttp.WSCloseCode.POLICY_VIOLATION)
    return int(aiohttp.WSCloseCode.INTERNAL_ERROR)
