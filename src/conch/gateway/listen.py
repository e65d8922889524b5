"""`GET /v1/listen`: live audio over a WebSocket, the plain way."""

import secrets
import time
from collections.abc import Mapping
from typing import Any

import aiohttp
from aiohttp import web

from conch.client import AsyncClient
from conch.gateway.errors import ApiError
from conch.gateway.json_text import read_json
from conch.gateway.listen_messages import Answers, ListenMessages, without_overlap
from conch.gateway.listen_query import ListenQuery, query_of
from conch.gateway.live_audio import RAW, LiveFrames
from conch.gateway.live_session import LiveSession, LiveUpdate
from conch.gateway.session_meter import SessionMeter
from conch.gateway.sockets import (
    LiveSocket,
    error_for_client,
    expired,
    hold,
    last_moment,
    until_one_ends,
)
from conch.gateway.state import CALLER, GATEWAY, REQUEST_ID, Caller, Gateway
from conch.session.overlap import OverlapRemoval
from conch.session.resume_state import Cut
from conch.wire.errors import (
    AudioError,
    OverloadedError,
)
from conch.wire.options import RecognitionOptions
from conch.wire.result import strict_json

ROUTE = "/v1/listen"
PROTOCOL = "conch"
"""Subprotocol for browsers, which may only send a key as a second one."""
MAX_FRAME_BYTES = 4 * 2**20


async def listen(request: web.Request) -> web.StreamResponse:
    """Answer live audio with the text so far.

    Raises:
        ApiError: before the WebSocket is accepted: the query is wrong, or nothing is free.
    """
    gateway, caller = request.app[GATEWAY], request[CALLER]
    # First, as a browser learns from a plain GET alone why its WebSocket was refused.
    query = query_of(list(request.query.items()), gateway.config.model_aliases)
    socket = LiveSocket(request, PROTOCOL, MAX_FRAME_BYTES)

    def listener(client: AsyncClient) -> _Listener:
        return _Listener(gateway, caller, query, client, socket, request[REQUEST_ID])

    return await hold(request, ROUTE, socket, listener)


class _Listener:
    """One session: reads the frames of a socket, and sends what the server hears in them."""

    def __init__(
        self,
        gateway: Gateway,
        caller: Caller,
        query: ListenQuery,
        client: AsyncClient,
        socket: LiveSocket,
        request_id: str,
    ) -> None:
        self._gateway, self._query = gateway, query
        self._socket = socket
        options = dict(query.options)
        if query.answers_all:  # whose answers are those of a stream without a gateway
            options.setdefault("history_s", RecognitionOptions().history_s)
        self._overlap: OverlapRemoval | None = None
        if query.told_s and not query.answers_all:
            cut, has_words = Cut(0.0, (), query.told_s), bool(options.get("word_timestamps"))
            self._overlap = OverlapRemoval(cut, 0, has_words=has_words)
            # Their times show which words are heard again.
            options["word_timestamps"] = True
        self._session = LiveSession(
            client,
            options,
            sample_rate=query.sample_rate,
            max_backlog_s=gateway.config.max_backlog_s,
            request_id=request_id,
            joins=not query.answers_all,
            freeing=gateway.freeing,
        )
        self._frames = LiveFrames(query.encoding, query.sample_rate)
        self._messages = ListenMessages(
            has_stats=query.has_stats, has_resume=query.has_resume, told_s=query.told_s
        )
        self._answers = Answers()
        self._code = int(aiohttp.WSCloseCode.OK)
        """Code of the close frame after the last text."""
        self._is_closing = False
        """Whether no more audio is taken."""
        self._meter = SessionMeter(gateway, caller, ROUTE)

    async def run(self) -> int:
        """Hold the session and return the code of its close frame.

        Raises:
            ApiError: more audio waits than may, or the caller has used up a limit.
            ConchError: the server has failed, or the audio cannot be decoded.
            ConnectionResetError: the client is gone.
        """
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
            await until_one_ends(self._send_texts(), self._read(), self._end_in_time(longest_s))
        return self._code

    async def fail(self, error: ApiError) -> None:
        """Send the client the error that has ended the session."""
        await self._send({"type": "error", "error": error.as_dict()})

    async def _end_in_time(self, longest_s: float) -> None:
        """End the session with its last text when the gateway stops, or it lasts too long."""
        self._code = await last_moment(self._gateway.draining, longest_s)
        self._close()
        if self._code == aiohttp.WSCloseCode.POLICY_VIOLATION:
            await self.fail(expired(longest_s))

    async def _read(self) -> None:
        """Read the socket until it is closed.

        Raises:
            ApiError: more audio waits than may.
            ConchError: the audio ends the session.
        """
        try:
            async for frame in self._socket.frames():
                if frame.type == aiohttp.WSMsgType.BINARY:
                    await self._hear(frame.data)
                else:
                    await self._obey(frame.data)
        except OverloadedError as error:
            raise ApiError(429, str(error), code="backlog_exceeded") from None

    async def _hear(self, data: bytes, *, ends: bool = False) -> None:
        if self._is_closing:
            return
        self._meter.audio_came()
        try:
            async for samples in self._frames.decoded(data, ends=ends):
                if not self._is_closing:
                    self._session.feed(samples)
        except AudioError as error:
            if self._query.encoding not in RAW:
                raise
            await self.fail(error_for_client(error))

    async def _obey(self, text: str) -> None:
        known = ("close", "keepalive", "finalize")[: 2 if self._query.answers_all else 3]
        kind = _type_in(text)
        if kind not in known:
            names = ", ".join(known)
            message = f"a text frame is JSON with a type of {names}; sent: {text!r:.80}"
            await self.fail(ApiError(400, message, code="unknown_message"))
        elif kind == "close":
            await self._hear(b"", ends=True)
            self._close()
        elif kind == "finalize" and not self._is_closing:
            self._session.finalize()

    def _close(self) -> None:
        self._is_closing = True
        self._session.close()

    async def _send_texts(self) -> None:
        """Send what the server hears, to the last text.

        Raises:
            ApiError: the caller has used up a limit.
            ConchError: the server has failed.
            ConnectionResetError: the client is gone.
        """
        async for update in self._session.updates():
            if self._overlap is not None:
                update = without_overlap(update, self._overlap)
            if self._query.answers_all:
                await self._answer(update)
            else:
                for message in self._messages.after(update):
                    if message.get("text"):
                        self._meter.text_came()
                    await self._send(message)
            self._meter.charge(update.audio_s, is_closing=self._is_closing)
        await self._send(self._messages.end())

    async def _answer(self, update: LiveUpdate) -> None:
        for _ in self._messages.after(update):
            pass
        if (answer := self._answers.after(update)) is not None:
            text = f'{{"type":"transcript","transcript":{answer.to_json()}}}'
            await self._socket.send(text)

    async def _send(self, message: Mapping[str, Any]) -> None:
        await self._socket.send(strict_json(message))


def _type_in(text: str) -> str | None:
    """Return the type of a message, None for what is no message."""
    try:
        message = read_json(text)
    except ValueError:
        return None
    kind = message.get("type") if isinstance(message, dict) else None
    return kind if isinstance(kind, str) else None
