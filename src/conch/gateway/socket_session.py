"""A live session over a WebSocket: the common part of all dialects, and Conch's own."""

import asyncio
import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import aiohttp
import msgspec
from aiohttp import web

from conch.client.timeouts import timeout
from conch.gateway.errors import ApiError, api_error
from conch.gateway.held import held
from conch.gateway.live_session import LiveSession
from conch.gateway.servers import SessionClient
from conch.gateway.sockets import ABNORMAL, CLOSE_TIMEOUT_S, OWN_CODES, LiveSocket
from conch.gateway.state import CALLER, GATEWAY, REQUEST_ID
from conch.wire.errors import AudioError, InvalidRequestError, OverloadedError, ServerError
from conch.wire.result import strict_json

PROTOCOL = "conch"
"""Subprotocol for browsers, which can only send a key as a second one."""


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
        """Hold the session and return the code of its close frame.

        Raises:
            ApiError: the session has lasted too long, or the caller has used up a limit.
            ConchError: the server has failed, or the audio cannot be decoded.
            ConnectionResetError: the client is gone.
        """
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
        async for frame in self._socket.frames():
            if self._live is not None:
                await self._live.room()
            await self._take(frame)
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
    found = api_error(error)
    if isinstance(error, AudioError):
        found.param = None  # there is no file
    return found


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
