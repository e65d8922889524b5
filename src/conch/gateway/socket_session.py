"""A live session over a WebSocket: the common part of all dialects."""

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import aiohttp
from aiohttp import web

from conch.client import OptionValue
from conch.client.timeouts import timeout
from conch.gateway.callers_live import charged_updates, live_session_of
from conch.gateway.errors import ApiError, api_error
from conch.gateway.live_session import LiveSession, LiveUpdate
from conch.gateway.servers import SessionClient
from conch.gateway.sockets import ABNORMAL, CLOSE_TIMEOUT_S, LiveSocket
from conch.gateway.state import CALLER, GATEWAY, REQUEST_ID
from conch.wire.errors import (
    AudioError,
    InvalidRequestError,
    OverloadedError,
    ServerError,
    SessionError,
)


class SocketSession(ABC):
    """Reads the frames of a client, and sends what follows from its audio."""

    def __init__(self, request: web.Request, socket: LiveSocket, client: SessionClient) -> None:
        self._gateway, self._caller = request.app[GATEWAY], request[CALLER]
        self._route, self._request_id = request.path, request[REQUEST_ID]
        self._socket, self._client = socket, client
        self._longest_s = self._gateway.config.max_session_s
        self._expires_at = round(time.time() + self._longest_s)
        self._code = int(aiohttp.WSCloseCode.OK)
        """Code of the close frame after the last text."""
        self._is_closing = False
        """Whether no more audio is taken."""

    async def run(self) -> int:
        """Hold the session and return the code of its close frame.

        Raises:
            ApiError: more audio waits than may, or the caller has used up a limit.
            ConchError: the server has failed, or the audio cannot be decoded.
            ConnectionResetError: the client is gone.
        """
        tasks = [
            asyncio.create_task(work)
            for work in (self._send_texts(), self._read(), self._end_in_time())
        ]
        try:
            await asyncio.wait(tasks[:2], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        for task in tasks[:2]:
            if not task.cancelled():
                task.result()
        return self._code

    @abstractmethod
    async def fail(self, error: ApiError) -> None:
        """Send the client the error that has ended the session."""

    @abstractmethod
    async def _report(self, error: ApiError) -> None:
        """Send the client an error after which the session continues."""

    @abstractmethod
    async def _take(self, frame: aiohttp.WSMessage) -> None:
        """Do what a frame asks for."""

    @abstractmethod
    async def _send_texts(self) -> None:
        """Send what the server hears, to the last text."""

    @abstractmethod
    def _close(self) -> None:
        """Take no more audio; the session ends after its last text."""

    async def _read(self) -> None:
        """Read the WebSocket until it is closed."""
        try:
            async for frame in self._socket.frames():
                await self._take(frame)
        except OverloadedError as error:
            raise ApiError(429, str(error), code="backlog_exceeded") from None

    async def _end_in_time(self) -> None:
        """End the session with its last text when the gateway stops, or it lasts too long."""
        try:
            async with timeout(self._longest_s):
                await self._gateway.draining.wait()
            self._code = int(aiohttp.WSCloseCode.GOING_AWAY)
        except asyncio.TimeoutError:
            self._code = int(aiohttp.WSCloseCode.POLICY_VIOLATION)
            lasted = f"the session has lasted {self._longest_s:g} s, as long as one may"
            await self._report(api_error(SessionError(f"{lasted}: open another")))
        self._close()

    def _new_live_session(
        self, options: Mapping[str, OptionValue], sample_rate: int, **settings: Any
    ) -> LiveSession:
        return live_session_of(
            *(self._gateway, self._client, options, sample_rate, self._request_id), **settings
        )

    def _updates(self, live: LiveSession) -> AsyncIterator[LiveUpdate]:
        """Yield the updates of the live session; measure its first text and charge its audio."""
        return charged_updates(live, self._gateway, self._caller, self._route)


async def hold(
    request: web.Request,
    socket: LiveSocket,
    session_on: Callable[[SessionClient], SocketSession],
) -> web.StreamResponse:
    """Hold a session from its WebSocket to its close frame; `session_on` returns it for a server.

    Raises:
        ApiError: before the WebSocket is accepted: nothing is free.
        ConnectionResetError: the client has gone without a close frame.
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
            labels = route, request[CALLER].name, str(int(code))
            gateway.metrics.sessions_ended.labels(*labels).inc()
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
