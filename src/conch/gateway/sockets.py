"""What the WebSockets of a gateway have in common: how they open, and how and why they end."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Protocol

import aiohttp
from aiohttp import hdrs, web

from conch.client import AsyncClient
from conch.client.timeouts import timeout
from conch.gateway.access import is_websocket
from conch.gateway.errors import ApiError, api_error
from conch.gateway.state import CALLER, GATEWAY, REQUEST_ID
from conch.wire.errors import (
    AudioError,
    ConchError,
    InvalidRequestError,
    OverloadedError,
    ServerError,
    SessionError,
    public_error,
)

PING_S = 20.0
"""Seconds between two pings; a client has half as long to answer."""
SEND_TIMEOUT_S = 30.0
"""Seconds for a client to take a message."""
CLOSE_TIMEOUT_S = 5.0
"""Seconds for a client to take the last messages, and as many for its own close frame."""

NO_CODE = 1005
"""Code of a close frame without one (RFC 6455, section 7.4.1)."""
ABNORMAL = int(aiohttp.WSCloseCode.ABNORMAL_CLOSURE)
"""Code of an end without a close frame."""


class LiveSocket:
    """The WebSocket of a session, whose client may stop to read or go away at any time."""

    def __init__(self, request: web.Request, protocol: str, max_message_bytes: int) -> None:
        """Prepare the WebSocket that a request asks for; it is still to be accepted.

        Args:
            request: The request.
            protocol: Subprotocol of the route, for browsers: they may only send a key as another
                one.
            max_message_bytes: Largest message that a client may send.

        Raises:
            ApiError: it asks for none, or for other subprotocols only.
        """
        _check_upgrade(request, protocol)
        self._request = request
        # Pings and close frames are answered here, as aiohttp has no time limit for it.
        self.response = web.WebSocketResponse(
            heartbeat=PING_S,
            autoping=False,
            autoclose=False,
            compress=False,
            max_msg_size=max_message_bytes,
            protocols=(protocol,),
            timeout=CLOSE_TIMEOUT_S,
        )
        self.response.headers["x-request-id"] = request[REQUEST_ID]
        self._sent_code: int | None = None

    @property
    def is_open(self) -> bool:
        """Whether it is accepted and not closed."""
        socket = self.response
        return socket.prepared and not socket.closed and socket.close_code is None

    @property
    def code(self) -> int:
        """Code of the first close frame; ABNORMAL if there was none."""
        if self._sent_code is not None:
            return self._sent_code
        code = self.response.close_code
        return ABNORMAL if code is None else int(code) or NO_CODE

    async def accept(self) -> None:
        """Accept it."""
        await self.response.prepare(self._request)

    async def frames(self) -> AsyncIterator[aiohttp.WSMessage]:
        """Yield the frames of text and of bytes until it is closed.

        Raises:
            ConnectionResetError: the client does not read.
        """
        async for frame in self.response:
            if frame.type == aiohttp.WSMsgType.PING:
                await self._in_time(self.response.pong(frame.data))
            elif frame.type in (aiohttp.WSMsgType.TEXT, aiohttp.WSMsgType.BINARY):
                yield frame

    async def send(self, text: str) -> None:
        """Send a frame of text.

        Raises:
            ConnectionResetError: the client is gone, or does not read.
        """
        await self._in_time(self.response.send_str(text))

    async def close(self, code: int) -> None:
        """Close it, with this code if the client has not closed it before.

        Raises:
            ConnectionResetError: the client is gone, or does not answer.
        """
        if self.is_open:
            self._sent_code = code
        await self.response.close(code=code)
        if self.response.close_code == ABNORMAL:
            self.abort()
            raise ConnectionResetError("the client has sent no close frame")

    def abort(self) -> None:
        """Break the connection off; what the client has not read is lost."""
        self._sent_code = None
        # Merely closed, it would stay until the client has read what was sent.
        if self._request.transport is not None:
            self._request.transport.abort()

    async def _in_time(self, sending: Awaitable[None]) -> None:
        try:
            async with timeout(SEND_TIMEOUT_S):
                await sending
        except asyncio.TimeoutError:
            self.abort()
            raise ConnectionResetError("the client does not read") from None


class SocketSession(Protocol):
    """What a route does with its socket."""

    async def run(self) -> int:
        """Hold the session and return the code of its close frame; raise what ends it sooner."""

    async def fail(self, error: ApiError) -> None:
        """Send the client the error that has ended the session."""


async def hold(
    request: web.Request,
    route: str,
    socket: LiveSocket,
    session_on: Callable[[AsyncClient], SocketSession],
) -> web.StreamResponse:
    """Hold a session from its WebSocket to its close frame.

    Args:
        request: The request.
        route: Its route, for metrics.
        socket: Its socket.
        session_on: Returns the session on a server.

    Raises:
        ApiError: before the WebSocket is accepted: nothing is free.
        ConnectionResetError: the client has gone without a close frame.
    """
    gateway = request.app[GATEWAY]
    with gateway.session_of(request[CALLER], route) as counted:
        try:
            ended: Exception | None = None
            try:
                async with gateway.servers.reserved() as client:
                    session = session_on(client)
                    await socket.accept()
                    code = await gateway.unless_broken_off(session.run())
            except Exception as error:
                if not socket.response.prepared or isinstance(error, ConnectionResetError):
                    raise
                ended, code = error, close_code(error)
            # Only now, so that a client that does not read keeps nothing of the server.
            async with timeout(2 * CLOSE_TIMEOUT_S):
                if ended is not None and socket.is_open:
                    await session.fail(error_for_client(ended))
                await socket.close(code)
        except asyncio.TimeoutError:
            socket.abort()
            raise ConnectionResetError("the client does not read") from None
        except (ConnectionResetError, asyncio.CancelledError):
            # aiohttp cancels a handler without a connection, after a close frame as well.
            if socket.code == ABNORMAL:
                raise
        finally:
            if socket.response.prepared:
                counted.code = socket.code
    return socket.response


def _check_upgrade(request: web.Request, protocol: str) -> None:
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


def protocols_in(request: web.Request) -> list[str]:
    """Return the subprotocols that a client offers."""
    offered = request.headers.get(hdrs.SEC_WEBSOCKET_PROTOCOL, "")
    return [item.strip() for item in offered.split(",") if item.strip()]


async def until_one_ends(
    sending: Coroutine[None, None, None],
    reading: Coroutine[None, None, None],
    ending: Coroutine[None, None, None],
) -> None:
    """Run what a session does until its client or its text has ended.

    Args:
        sending: Sends what the server hears, to the last text.
        reading: Reads the socket until it is closed.
        ending: Sees to it that `sending` ends in time.

    Raises:
        Exception: the error of `sending`, or that of `reading`.
    """
    tasks = [asyncio.create_task(item) for item in (sending, reading, ending)]
    try:
        await asyncio.wait(tasks[:2], return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in tasks[:2]:
        if not task.cancelled():
            task.result()


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


def error_for_client(error: Exception) -> ApiError:
    """Return the error that a client gets for what has ended its session."""
    if isinstance(error, ApiError):
        return error
    found = api_error(error if isinstance(error, ConchError) else public_error(error))
    if isinstance(error, AudioError):
        found.param = None  # there is no file
    return found


def close_code(error: Exception) -> int:
    """Return the code of the close frame after an error (RFC 6455, section 7.4)."""
    match error:
        case ServerError() | OverloadedError():
            return int(aiohttp.WSCloseCode.TRY_AGAIN_LATER)
        case SessionError():
            return int(aiohttp.WSCloseCode.SERVICE_RESTART)
        case ApiError() if error.status == 503:
            return int(aiohttp.WSCloseCode.TRY_AGAIN_LATER)
        case ApiError() | InvalidRequestError():
            return int(aiohttp.WSCloseCode.POLICY_VIOLATION)
    return int(aiohttp.WSCloseCode.INTERNAL_ERROR)
