"""`GET /v1/conch/speak`: text that is still written comes over a WebSocket, and audio goes back."""

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict
from typing import Any

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
COMMANDS = ("text", "flush", "cancel", "close")


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
    """A session whose client writes texts that end with a flush."""

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
        await self._begin()
        return await super().run()

    async def _begin(self) -> None:
        """Send what comes before the first audio."""
        query = self._query
        await self._greet(format=query.format, sample_rate=query.rate, voice=query.voice)

    async def fail(self, error: ApiError) -> None:
        await self._send({"type": "error", "error": error.as_dict(), **self._audio_position()})

    async def _take(self, frame: aiohttp.WSMessage) -> None:
        command = command_in(frame.data)
        if command is None or command.type not in COMMANDS:
            return await self._refuse(frame.data, COMMANDS)
        if command.type == "cancel":
            self._cancel()
        elif not self._is_closing:
            match command.type:
                case "text":
                    self._add(command.text)
                case "flush":
                    self._flush()
                case "close":
                    self._close()

    def _add(self, text: str) -> None:
        waiting = len(text) + sum(item.num_waiting for item in self._utterances)
        check_waiting(waiting)
        if text:
            self._utterances[-1].add(text)

    def _flush(self) -> None:
        if len(self._utterances) > MAX_FLUSHES:
            message = f"{MAX_FLUSHES + 1} flushes would wait; at most {MAX_FLUSHES} may"
            raise ApiError(429, message, code="backlog_exceeded")
        self._utterances[-1].end()
        self._utterances.append(TextPieces())

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
                await self._send_cancelled()
        self._last = self._end()

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
            await self._send_flushed(figures)

    async def _send_piece(self, spoken: Spoken, audio: bytes) -> None:
        await self._send_sentences(spoken)
        if audio:
            await self._socket.send(audio)
        self._audio_s = spoken.duration
        self._caller.check_audio()

    async def _send_sentences(self, spoken: Spoken) -> None:
        for sentence in spoken.sentences:
            await self._send({"type": "sentence", **asdict(sentence)})

    async def _send_flushed(self, figures: Mapping[str, Any]) -> None:
        """Send that all before a flush was spoken."""
        stages = {name: asdict(stage) for name, stage in figures["stages"].items()}
        await self._send({"type": "flushed", **self._audio_position(), **figures, "stages": stages})

    async def _send_cancelled(self) -> None:
        await self._send({"type": "cancelled", **self._audio_position()})

    def _end(self) -> Mapping[str, Any] | None:
        """Return the last message."""
        return {"type": "end", **self._audio_position()}

    def _audio_position(self) -> dict[str, float]:
        return {"audio_s": round(self._audio_s, 3)}
