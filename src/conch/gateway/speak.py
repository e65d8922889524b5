"""`GET /v1/conch/speak`: text that is still written comes over a WebSocket, and audio goes back."""

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict
from typing import Any, ClassVar

import aiohttp
from aiohttp import web

from conch.gateway.doors import SPEAK
from conch.gateway.errors import ApiError, one_of
from conch.gateway.listen import values_of
from conch.gateway.servers import SessionClient
from conch.gateway.socket_session import PROTOCOL, LiveSocket, PlainSession, command_in, hold
from conch.gateway.speech import check_model
from conch.gateway.state import GATEWAY, cancelled
from conch.gateway.voicing import (
    FORMATS,
    OPTIONS,
    TextPieces,
    Voicing,
    check_waiting,
    counted,
    encoded,
)
from conch.wire.errors import TextError
from conch.wire.option_values import options_of_text
from conch.wire.synthesis import Spoken

MAX_FLUSHES = 1_000
"""Texts of a session that may wait to be spoken."""


def query_of(sent: Sequence[tuple[str, str]], aliases: Mapping[str, str]) -> Voicing:
    """Return the session of a query; raise an ApiError or OptionError for a wrong field."""
    values = values_of(sent)
    check_model(values.pop("model", ""), aliases)
    format = FORMATS[one_of("format", values.pop("format", "") or "pcm", tuple(FORMATS))]
    options = options_of_text(values, OPTIONS, others=("model", "format"))
    return Voicing.parse(options, format)


async def speak(request: web.Request) -> web.StreamResponse:
    query = query_of(list(request.query.items()), request.app[GATEWAY].model_aliases)
    socket = LiveSocket(request, SPEAK.max_message_bytes, PROTOCOL)
    return await hold(request, socket, lambda client: SpeakSession(request, socket, client, query))


class SpeakSession(PlainSession):
    """A session whose client writes texts, each up to a flush."""

    commands: ClassVar[Mapping[str, str]] = {
        name: name for name in ("text", "flush", "cancel", "close")
    }
    """Commands by the type of a frame."""

    def __init__(
        self, request: web.Request, socket: LiveSocket, client: SessionClient, query: Voicing
    ) -> None:
        super().__init__(request, socket, client)
        self._query = query
        self._utterances = deque([TextPieces()])
        """Texts up to a flush, the one that is spoken first. The last one is still written."""
        self._speaking: asyncio.Task[None] | None = None
        self._num_cancels = 0
        """Cancels that are not answered yet."""
        self._audio_s = 0.0
        """Seconds of audio that were sent."""

    async def run(self) -> int:
        query = self._query
        await self._greet(format=query.format, sample_rate=query.rate, voice=query.voice)
        return await super().run()

    async def fail(self, error: ApiError) -> None:
        await self._send({"type": "error", "error": error.as_dict(), **self._audio_position()})

    async def _take(self, frame: aiohttp.WSMessage) -> None:
        command = command_in(frame.data)
        if command is None or command.type not in self.commands:
            return await self._refuse(frame.data, [*self.commands])
        wanted = self.commands[command.type]
        if wanted == "cancel":
            self._cancel()
        elif not self._is_closing:
            match wanted:
                case "text":
                    self._add(command.text)
                case "flush":
                    if len(self._utterances) > MAX_FLUSHES:
                        message = f"{MAX_FLUSHES + 1} flushes would wait; at most {MAX_FLUSHES} may"
                        raise ApiError(429, message, code="backlog_exceeded")
                    self._utterances[-1].end()
                    self._utterances.append(TextPieces())
                case "close":
                    self._close()

    def _add(self, text: str) -> None:
        waiting = len(text) + sum(item.num_waiting for item in self._utterances)
        check_waiting(waiting)
        if text:
            self._utterances[-1].add(text)

    def _close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._utterances[-1].end()

    def _cancel(self) -> None:
        """Drop all text; no audio of it is sent after the answer."""
        self._num_cancels += 1
        self._utterances.clear()
        if not self._is_closing:
            self._utterances.append(TextPieces())
        if self._speaking is not None:
            self._speaking.cancel()

    async def _send_texts(self) -> None:
        while self._utterances:
            utterance = self._utterances[0]
            self._speaking = asyncio.ensure_future(self._speak(utterance))
            try:
                await asyncio.wait([self._speaking])
            finally:
                await cancelled(self._speaking)
            if not self._speaking.cancelled():
                self._speaking.result()
            if utterance in self._utterances:
                self._utterances.popleft()
            for _ in range(self._num_cancels):
                self._num_cancels -= 1
                await self._send({"type": "cancelled", **self._audio_position()})
        self._last = {"type": "end", **self._audio_position()}

    async def _speak(self, utterance: TextPieces) -> None:
        before_s, encoder = self._audio_s, self._query.encoder()
        stream = self._client.synthesize_stream(
            utterance.each(), request_id=self._request_id, **self._query.options
        )
        accounting = self._gateway, self._caller, self._route
        figures: dict[str, Any] = {"path": (), "stages": {}, "warnings": ()}
        try:
            async with aclosing(counted(stream, *accounting, lambda: utterance.began)) as pieces:
                async for piece in pieces:
                    audio = await encoded(encoder, piece)
                    await self._send_piece(piece.spoken.later(before_s), audio)
                figures = {name: getattr(piece.spoken, name) for name in figures}
        except TextError as error:
            figures["warnings"] = (str(error),) if utterance.began else ()
        if utterance.began or not self._is_closing:
            stages = {name: asdict(stage) for name, stage in figures["stages"].items()}
            await self._send(
                {"type": "flushed", **self._audio_position(), **figures, "stages": stages}
            )

    async def _send_piece(self, spoken: Spoken, audio: bytes) -> None:
        for sentence in spoken.sentences:
            await self._send({"type": "sentence", **asdict(sentence)})
        if audio:
            await self._socket.send(audio)
        self._audio_s = spoken.duration
        self._caller.check_audio()

    def _audio_position(self) -> dict[str, float]:
        return {"audio_s": round(self._audio_s, 3)}
