"""A live session over a WebSocket: its frames, the part that dialects share, and Conch's own."""

import asyncio
import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

import aiohttp
import msgspec
from aiohttp import hdrs, web

from conch.client.aio import timeout
from conch.gateway.access import is_websocket, protocols_in
from conch.gateway.bodies import sent_in_time
from conch.gateway.errors import ApiError, api_error
from conch.gateway.held import held
from conch.gateway.live_session import LiveSession
from conch.gateway.servers import SessionClient
from conch.gateway.state import CALLER, GATEWAY, REQUEST_ID
from conch.wire.errors import AudioError, InvalidRequestError, OverloadedError, ServerError
from conch.wire.result import strict_json

PROTOCOL = "conch"
"""Subprotocol for browsers, which can only send a key as a second one."""

CLOSE_TIMEOUT_S = 5.0
"""Seconds for a client to take the last messages, and again for its own close frame."""

NO_CODE = 1005
"""Code of a close frame without one (RFC 6455, section 7.4.1)."""
OWN_CODES = 3000
"""First of the codes that programs choose (RFC 6455, section 7.4.2)."""
ABNORMAL = int(aiohttp.WSCloseCode.ABNORMAL_CLOSURE)
"""Code of an end without a close frame."""


class LiveSocket:
    """The WebSocket of one session.

    Its methods raise a ConnectionResetError if the client is gone, or does not read or answer.
    """

    def __init__(self, request: web.Request, max_message_bytes: int, *protocols: str) -> None:
        """Prepare the WebSocket that a request asks for; `accept` opens it.

        Browsers offer one of the route's subprotocols with another one, which holds their key.
        Raise an ApiError if the request asks for no WebSocket, or for other subprotocols only.
        """
        _check_upgrade(request, protocols)
        self._request, self._times = request, request.app[GATEWAY].config.times
        # Pings and close frames are answered here, because aiohttp has no time limit for it.
        self.response = web.WebSocketResponse(
            heartbeat=self._times.ping_s,
            autoping=False,
            autoclose=False,
            compress=False,
            max_msg_size=max_message_bytes,
            protocols=protocols,
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
        await self.response.prepare(self._request)

    async def frames(self) -> AsyncIterator[aiohttp.WSMessage]:
        """Yield the frames of text and of bytes until the WebSocket is closed."""
        async for frame in self.response:
            if frame.type == aiohttp.WSMsgType.PING:
                await sent_in_time(self.response.pong(frame.data), self._request)
            elif frame.type in (aiohttp.WSMsgType.TEXT, aiohttp.WSMsgType.BINARY):
                yield frame

    async def send(self, content: str | bytes) -> None:
        if isinstance(content, str):
            await sent_in_time(self.response.send_str(content), self._request)
        else:
            await sent_in_time(self.response.send_bytes(content), self._request)

    async def close(self, code: int) -> None:
        """Close it, with this code if the client has not closed it before."""
        if self.is_open:
            self._sent_code = code
        await self.response.close(code=code)
        if self.response.close_code == ABNORMAL:
            self.abort()
            raise ConnectionResetError("the client has sent no close frame")

    def abort(self) -> None:
        """Break the connection off, and drop what the client has not read."""
        self._sent_code = None
        # After a mere close it stays until the client has read everything.
        if self._request.transport is not None:
            self._request.transport.abort()


def _check_upgrade(request: web.Request, protocols: Sequence[str]) -> None:
    if not is_websocket(request):
        raise ApiError(
            426,
            f"{request.path} is a WebSocket: connect by ws:// or wss://",
            code="upgrade_required",
            headers={hdrs.UPGRADE: "websocket"},
        )
    offered = protocols_in(request.headers)
    if offered and not {*protocols} & {*offered}:
        # aiohttp would log them, and one may be a key.
        raise ApiError(
            400,
            f"offer the subprotocol '{protocols[0]}' before the one with the key, or none",
            code="unknown_subprotocol",
        )


class SocketSession(ABC):
    """Reads the frames of a client, and sends what follows from its audio."""

    def __init__(self, request: web.Request, socket: LiveSocket, client: SessionClient) -> None:
        self._gateway, self._caller = request.app[GATEWAY], request[CALLER]
        self._route, self._request_id = request.path, request[REQUEST_ID]
        self._socket, self._client = socket, client
        self._live: LiveSession | None = None
        """Session that gets the audio, if there is any."""
        self._expires_at = round(time.time() + self._gateway.config.max_session_s)
        self._last: Mapping[str, Any] | None = None
        """The last message, once all texts are sent."""
        self._is_closing = False
        """Whether no more is taken."""

    async def run(self) -> int:
        """Hold the session and return the code of its close frame; raise what `held` raises."""
        stops = await held(self._gateway, self._send_texts(), self._read(), self._close)
        return int(aiohttp.WSCloseCode.GOING_AWAY if stops else aiohttp.WSCloseCode.OK)

    @abstractmethod
    async def fail(self, error: ApiError) -> None:
        """Send the client the error that has ended the session."""

    async def end(self) -> None:
        """Send the last message, if there was a last text."""
        if self._last is not None:
            await self._socket.send(strict_json(self._last))

    @abstractmethod
    async def _take(self, frame: aiohttp.WSMessage) -> None:
        """Do what a frame asks for."""

    @abstractmethod
    async def _send_texts(self) -> None:
        """Send what the server hears, to the last text."""

    def _close(self) -> None:
        """Take no more; the session ends after its last text."""
        self._is_closing = True
        if self._live is not None:
            self._live.close()

    async def _read(self) -> bool:
        """Read the WebSocket until the client closes it, and with it the session."""
        frames = self._socket.frames()
        ahead = asyncio.ensure_future(anext(frames, None))
        try:
            while (frame := await ahead) is not None:
                # A frame may have minutes of audio: the pings behind it are answered meanwhile.
                ahead = asyncio.ensure_future(anext(frames, None))
                if self._live is not None:
                    await self._live.room()
                await self._take(frame)
        finally:
            ahead.cancel()
            await asyncio.gather(ahead, return_exceptions=True)
        return False


async def hold(
    request: web.Request,
    socket: LiveSocket,
    session_on: Callable[[SessionClient], SocketSession],
) -> web.StreamResponse:
    """Hold a session from its WebSocket to its close frame; `session_on` returns it for a server.

    Raise an ApiError before the WebSocket is accepted if nothing is free, or a ConnectionResetError
    if the client has gone without a close frame.
    """
    gateway, route = request.app[GATEWAY], request.path
    with gateway.session_of(request[CALLER], route):
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
                if socket.is_open:
                    await session.end()
                await socket.close(code)
        except asyncio.TimeoutError:
            socket.abort()
            raise ConnectionResetError("the client does not read") from None
        except (ConnectionResetError, asyncio.CancelledError):
            # aiohttp cancels a handler without a connection, after a close frame as well.
            if socket.code == ABNORMAL:
                raise
        finally:
            code = socket.code if socket.response.prepared else aiohttp.WSCloseCode.OK
            label = str(int(code)) if code < OWN_CODES else "other"
            gateway.metrics.sessions_ended.labels(route, request[CALLER].name, label).inc()
    return socket.response


def error_for_client(error: Exception) -> ApiError:
    """Return the error for the client whose session an exception has ended."""
    client_error = api_error(error)
    if isinstance(error, AudioError):
        client_error.param = None  # there is no file
    return client_error


def close_code(error: Exception) -> int:
    """Return the code of the close frame after an error (RFC 6455, section 7.4)."""
    match error:
        case ServerError() | OverloadedError():
            return int(aiohttp.WSCloseCode.TRY_AGAIN_LATER)
        case ApiError() if error.status == 503:
            return int(aiohttp.WSCloseCode.TRY_AGAIN_LATER)
        case ApiError() | InvalidRequestError():
            return int(aiohttp.WSCloseCode.POLICY_VIOLATION)
    return int(aiohttp.WSCloseCode.INTERNAL_ERROR)


class Command(msgspec.Struct):
    """A text frame of a client; further fields are ignored."""

    type: str
    text: str = ""


_COMMANDS = msgspec.json.Decoder(Command)


class PlainSession(SocketSession):
    """A session whose client sends commands and reads messages."""

    async def fail(self, error: ApiError) -> None:
        await self._send({"type": "error", "error": error.as_dict()})

    async def _greet(self, **fields: Any) -> None:
        session, until = f"sess_{secrets.token_hex(12)}", self._expires_at
        await self._send({"type": "ready", "session": session, **fields, "expires_at": until})

    async def _refuse(self, sent: str | bytes, known: Sequence[str]) -> None:
        """Report a frame that is no command."""
        names = ", ".join(known)
        message = f"a text frame is JSON with a type of {names}; sent: {sent!r:.80}"
        await self.fail(ApiError(400, message, code="unknown_message"))

    async def _send(self, message: Mapping[str, Any]) -> None:
        await self._socket.send(strict_json(message))


def command_in(frame: str | bytes) -> Command | None:
    """Return the command of a frame, None if it is none."""
    try:
        return _COMMANDS.decode(frame)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return None
