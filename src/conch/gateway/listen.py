"""`GET /v1/listen`: live audio over a WebSocket, the plain way."""

import asyncio
import json
import secrets
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import aiohttp
from aiohttp import hdrs, web

from conch.client import AsyncClient
from conch.client.timeouts import timeout
from conch.gateway.access import is_websocket
from conch.gateway.errors import ApiError, api_error
from conch.gateway.listen_messages import Answers, ListenMessages
from conch.gateway.listen_query import ListenQuery, query_of
from conch.gateway.live_audio import RAW, LiveFrames
from conch.gateway.live_session import LiveSession, LiveUpdate
from conch.gateway.state import CALLER, GATEWAY, REQUEST_ID, Caller, Gateway
from conch.wire.errors import (
    AudioError,
    ConchError,
    InvalidRequestError,
    OverloadedError,
    ServerError,
    SessionError,
    public_error,
)
from conch.wire.options import RecognitionOptions
from conch.wire.result import strict_json

ROUTE = "/v1/listen"
PROTOCOL = "conch"
"""Subprotocol for browsers, which may only send a key as a second one."""
PING_S = 20.0
"""Seconds between two pings; a client has half as long to answer."""
MAX_FRAME_BYTES = 4 * 2**20
SEND_TIMEOUT_S = 5.0
"""Seconds for a client to take the last messages and the close frame."""


async def listen(request: web.Request) -> web.StreamResponse:
    """Answer live audio with the text so far.

    Raises:
        ApiError: before the WebSocket is accepted: the query is wrong, or nothing is free.
    """
    gateway, caller = request.app[GATEWAY], request[CALLER]
    if not is_websocket(request):
        raise ApiError(
            426,
            f"{ROUTE} is a WebSocket: connect by ws:// or wss://",
            code="upgrade_required",
            headers={hdrs.UPGRADE: "websocket"},
        )
    _check_protocols(request.headers.get(hdrs.SEC_WEBSOCKET_PROTOCOL))
    query = query_of(list(request.query.items()), gateway.config.model_aliases)
    with gateway.session_of(caller, ROUTE) as session:
        async with gateway.servers.reserved() as client:
            socket = web.WebSocketResponse(
                heartbeat=PING_S,
                compress=False,
                max_msg_size=MAX_FRAME_BYTES,
                protocols=(PROTOCOL,),
                timeout=SEND_TIMEOUT_S,
            )
            socket.headers["x-request-id"] = request[REQUEST_ID]
            listener = _Listener(gateway, caller, query, client, socket, request[REQUEST_ID])
            await socket.prepare(request)
            session.code = 1006  # unless the session ends otherwise
            session.code = await listener.run()
    return socket


def _check_protocols(offered: str | None) -> None:
    """Refuse subprotocols without our own: aiohttp would log them, and one may be a key."""
    if offered is not None and PROTOCOL not in (item.strip() for item in offered.split(",")):
        raise ApiError(
            400,
            f"offer the subprotocol '{PROTOCOL}' before the one with the key, or none",
            code="unknown_subprotocol",
        )


class _Listener:
    """One session: reads the frames of a socket, and sends what the server hears in them."""

    def __init__(
        self,
        gateway: Gateway,
        caller: Caller,
        query: ListenQuery,
        client: AsyncClient,
        socket: web.WebSocketResponse,
        request_id: str,
    ) -> None:
        self._gateway, self._caller, self._query = gateway, caller, query
        self._socket = socket
        options = dict(query.options)
        if query.answers_all:  # whose answers are those of a stream without a gateway
            options.setdefault("history_s", RecognitionOptions().history_s)
        self._session = LiveSession(
            client,
            options,
            sample_rate=query.sample_rate,
            max_backlog_s=gateway.config.max_backlog_s,
            request_id=request_id,
            joins=not query.answers_all,
        )
        self._frames = LiveFrames(query.encoding, query.sample_rate)
        self._messages = ListenMessages(has_stats=query.has_stats)
        self._answers = Answers()
        self._code = int(aiohttp.WSCloseCode.OK)
        """Code of the close frame after the last text."""
        self._is_closing = False
        """Whether no more audio is taken."""
        self._charged_s = 0.0
        self._first_audio_at: float | None = None
        self._has_text = False

    async def run(self) -> int:
        """Hold the session and return the code of its close frame."""
        longest_s = self._gateway.config.max_session_s
        await self._send(
            {
                "type": "ready",
                "session": f"sess_{secrets.token_hex(12)}",
                "encoding": self._query.encoding,
                "sample_rate": self._query.sample_rate,
                "expires_at": round(time.time() + longest_s),
            }
        )
        async with self._frames, self._session:
            reading = asyncio.create_task(self._read())
            telling = asyncio.create_task(self._tell())
            ending = asyncio.create_task(self._end_in_time(longest_s))
            tasks = (reading, telling, ending)
            try:
                await asyncio.wait({reading, telling}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
            return await self._finish(_error_of(telling) or _error_of(reading))

    async def _finish(self, error: Exception | None) -> int:
        """Tell the client why the session ends, if it is there; return the code of the end."""
        code = self._code if error is None else close_code(error)
        # A client that does not read must not keep the server's stream.
        with suppress(ConnectionResetError, asyncio.TimeoutError):
            async with timeout(2 * SEND_TIMEOUT_S):
                if error is not None:
                    await self._send_error(_api_error(error))
                await self._socket.close(code=code)
        return int(self._socket.close_code or code)

    async def _end_in_time(self, longest_s: float) -> None:
        """End the session with its last text when the gateway stops, or it lasts too long."""
        draining = asyncio.create_task(self._gateway.draining.wait())
        try:
            async with timeout(longest_s):
                await draining
            self._code = int(aiohttp.WSCloseCode.GOING_AWAY)
        except asyncio.TimeoutError:
            self._code = int(aiohttp.WSCloseCode.POLICY_VIOLATION)
        finally:
            draining.cancel()
        self._close()
        if self._code == aiohttp.WSCloseCode.POLICY_VIOLATION:
            message = f"the session has lasted {longest_s:g} s, as long as one may: open another"
            await self._send_error(ApiError(408, message, code="session_expired"))

    async def _read(self) -> None:
        """Read the socket until it is closed.

        Raises:
            ApiError: more audio waits than may.
            ConchError: the audio ends the session.
        """
        try:
            async for frame in self._socket:
                if frame.type == aiohttp.WSMsgType.BINARY:
                    await self._hear(frame.data)
                elif frame.type == aiohttp.WSMsgType.TEXT:
                    await self._obey(frame.data)
        except OverloadedError as error:
            raise ApiError(429, str(error), code="backlog_exceeded") from None

    async def _hear(self, data: bytes, *, ends: bool = False) -> None:
        if self._is_closing:
            return
        if self._first_audio_at is None:
            self._first_audio_at = time.monotonic()
        try:
            async for samples in self._frames.decoded(data, ends=ends):
                if not self._is_closing:
                    self._session.feed(samples)
        except AudioError as error:
            if self._query.encoding not in RAW:
                raise
            await self._send_error(_api_error(error))

    async def _obey(self, text: str) -> None:
        known = ("close", "keepalive", "finalize")[: 2 if self._query.answers_all else 3]
        kind = _type_in(text)
        if kind not in known:
            names = ", ".join(known)
            message = f"a text frame is JSON with a type of {names}; sent: {text!r:.80}"
            await self._send_error(ApiError(400, message, code="unknown_message"))
        elif kind == "close":
            await self._hear(b"", ends=True)
            self._close()
        elif kind == "finalize" and not self._is_closing:
            self._session.finalize()

    def _close(self) -> None:
        self._is_closing = True
        self._session.close()

    async def _tell(self) -> None:
        """Send what the server hears, to the last text.

        Raises:
            ApiError: the caller has used up a limit.
            ConchError: the server has failed.
            ConnectionResetError: the client is gone.
        """
        async for update in self._session.updates():
            if self._query.answers_all:
                await self._answer(update)
            else:
                for message in self._messages.after(update):
                    self._observe(message)
                    await self._send(message)
            self._charge(update.audio_s)
        await self._send(self._messages.end())

    async def _answer(self, update: LiveUpdate) -> None:
        for _ in self._messages.after(update):
            pass
        if (answer := self._answers.after(update)) is not None:
            text = f'{{"type":"transcript","transcript":{answer.to_json()}}}'
            await self._socket.send_str(text)

    def _observe(self, message: Mapping[str, Any]) -> None:
        """Measure how long the first text took."""
        if not self._has_text and message.get("text") and self._first_audio_at is not None:
            self._has_text = True
            seconds = time.monotonic() - self._first_audio_at
            self._gateway.metrics.first_text_seconds.labels(ROUTE).observe(seconds)

    def _charge(self, audio_s: float) -> None:
        """Count what was heard since the last time."""
        if audio_s > self._charged_s:
            self._gateway.heard(self._caller, ROUTE, audio_s - self._charged_s)
            self._charged_s = audio_s
            if not self._is_closing:
                self._gateway.check_audio(self._caller)

    async def _send(self, message: Mapping[str, Any]) -> None:
        await self._socket.send_str(strict_json(message))

    async def _send_error(self, error: ApiError) -> None:
        await self._send({"type": "error", "error": error.as_dict()})


def _type_in(text: str) -> str | None:
    """Return the type of a message, None for what is no message."""
    try:
        message = json.loads(text)
    except (ValueError, RecursionError):
        return None
    kind = message.get("type") if isinstance(message, dict) else None
    return kind if isinstance(kind, str) else None


def _error_of(task: "asyncio.Task[None]") -> Exception | None:
    """Return the error that has ended a task; None if it goes on or has ended well."""
    if not task.done() or task.cancelled():
        return None
    error = task.exception()
    if error is not None and not isinstance(error, Exception):
        raise error
    return error


def _api_error(error: Exception) -> ApiError:
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
