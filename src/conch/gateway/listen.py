"""`GET /v1/listen`: live audio over a WebSocket, the plain way."""

import secrets
from collections.abc import Mapping
from typing import Any

import aiohttp
import msgspec
from aiohttp import web

from conch.client import AsyncClient
from conch.gateway.errors import ApiError
from conch.gateway.listen_messages import Answers, ListenMessages, without_overlap
from conch.gateway.listen_query import ListenQuery, query_of
from conch.gateway.live_audio import RAW, LiveFrames
from conch.gateway.socket_session import SocketSession, error_for_client, hold
from conch.gateway.sockets import LiveSocket
from conch.gateway.state import GATEWAY
from conch.session.overlap import OverlapRemoval
from conch.session.resume_state import Cut
from conch.wire.errors import AudioError
from conch.wire.options import RecognitionOptions
from conch.wire.result import strict_json

PROTOCOL = "conch"
"""Subprotocol for browsers, which can only send a key as a second one."""
MAX_FRAME_BYTES = 4 * 2**20


class _Command(msgspec.Struct):
    """A text frame of a client; further fields are ignored."""

    type: str


_COMMANDS = msgspec.json.Decoder(_Command)


async def listen(request: web.Request) -> web.StreamResponse:
    """Answer live audio with the text so far."""
    # First, as a browser learns from a plain GET alone why its WebSocket was refused.
    query = query_of(list(request.query.items()), request.app[GATEWAY].config.model_aliases)
    socket = LiveSocket(request, PROTOCOL, MAX_FRAME_BYTES)
    return await hold(request, socket, lambda client: _Listener(request, socket, client, query))


class _Listener(SocketSession):
    def __init__(
        self, request: web.Request, socket: LiveSocket, client: AsyncClient, query: ListenQuery
    ) -> None:
        super().__init__(request, socket, client)
        self._query = query
        options = dict(query.options)
        if query.answers_all:  # its answers are those of a stream without a gateway
            options.setdefault("history_s", RecognitionOptions().history_s)
        self._overlap: OverlapRemoval | None = None
        if query.told_s and not query.answers_all:
            cut, has_words = Cut(0.0, (), query.told_s), bool(options.get("word_timestamps"))
            self._overlap = OverlapRemoval(cut, 0, has_words=has_words)
            # Their times show which words are heard again.
            options["word_timestamps"] = True
        self._live = self._new_live_session(options, query.sample_rate, joins=not query.answers_all)
        self._frames = LiveFrames(query.encoding, query.sample_rate)

    async def run(self) -> int:
        await self._send(
            {
                "type": "ready",
                "session": f"sess_{secrets.token_hex(12)}",
                "encoding": self._query.encoding,
                "sample_rate": self._query.sample_rate,
                "expires_at": self._expires_at,
            }
        )
        async with self._frames, self._live:
            return await super().run()

    async def fail(self, error: ApiError) -> None:
        await self._send({"type": "error", "error": error.as_dict()})

    _report = fail

    async def _take(self, frame: aiohttp.WSMessage) -> None:
        if frame.type == aiohttp.WSMsgType.BINARY:
            await self._hear(frame.data)
        else:
            await self._obey(frame.data)

    async def _hear(self, data: bytes, *, ends: bool = False) -> None:
        if self._is_closing:
            return
        self._note_audio()
        try:
            async for samples in self._frames.decoded(data, ends=ends):
                if not self._is_closing:
                    self._live.feed(samples)
        except AudioError as error:
            if self._query.encoding not in RAW:
                raise
            await self._report(error_for_client(error))

    async def _obey(self, text: str) -> None:
        known = ("close", "keepalive", "finalize")[: 2 if self._query.answers_all else 3]
        kind = _type_in(text)
        if kind not in known:
            names = ", ".join(known)
            message = f"a text frame is JSON with a type of {names}; sent: {text!r:.80}"
            await self._report(ApiError(400, message, code="unknown_message"))
        elif kind == "close":
            await self._hear(b"", ends=True)
            self._close()
        elif kind == "finalize" and not self._is_closing:
            self._live.finalize()

    def _close(self) -> None:
        self._is_closing = True
        self._live.close()

    async def _send_texts(self) -> None:
        query = self._query
        messages = ListenMessages(
            has_stats=query.has_stats, has_resume=query.has_resume, told_s=query.told_s
        )
        answers = Answers()
        async for update in self._updates(self._live):
            if self._overlap is not None:
                update = without_overlap(update, self._overlap)
            new = list(messages.after(update))
            if not query.answers_all:
                for message in new:
                    await self._send(message)
            elif (answer := answers.after(update)) is not None:
                text = f'{{"type":"transcript","transcript":{answer.to_json()}}}'
                await self._socket.send(text)
        await self._send(messages.end())

    async def _send(self, message: Mapping[str, Any]) -> None:
        await self._socket.send(strict_json(message))


def _type_in(text: str) -> str | None:
    """Return the type of a message, None if it has none."""
    try:
        return _COMMANDS.decode(text).type
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return None
