"""`GET /v1/speak`: texts over a WebSocket that are spoken as they come, for Deepgram's clients."""

from collections.abc import Mapping
from typing import Any

import aiohttp
from aiohttp import web

import conch
from conch.gateway import speak as conchs
from conch.gateway.deepgram import speech
from conch.gateway.deepgram.results import model_uuid
from conch.gateway.deepgram.sockets import TOKENS, DeepgramSocket, is_conchs
from conch.gateway.doors import DEEPGRAM_SPEAK
from conch.gateway.socket_session import LiveSocket, command_in, hold
from conch.gateway.speak import SpeakSession
from conch.gateway.voicing import OPTIONS
from conch.wire.synthesis import Spoken

COMMANDS = ("Speak", "Flush", "Clear", "Close")
CONCHS = {"format", *OPTIONS} - {*speech.PARAMETERS}
"""Names in a query that Conch's own protocol alone knows."""


async def speak(request: web.Request) -> web.StreamResponse:
    if is_conchs(request, CONCHS):
        return await conchs.speak(request)
    voicing = speech.voicing_of([*request.query.items()], live=True)
    socket = LiveSocket(request, DEEPGRAM_SPEAK.max_message_bytes, *TOKENS)
    return await hold(request, socket, lambda client: _Session(request, socket, client, voicing))


class _Session(DeepgramSocket, SpeakSession):
    _num_answers = 0
    """Answers to `Flush` and `Clear` so far."""

    async def _begin(self) -> None:
        voice = self._query.voice
        about = {"model_name": voice, "model_version": conch.__version__}
        ids = {"request_id": self._request_id, "model_uuid": model_uuid(voice)}
        await self._send({"type": "Metadata", **ids, **about})

    async def _take(self, frame: aiohttp.WSMessage) -> None:
        command = command_in(frame.data)
        match command.type if command else None:
            case "Clear":
                self._cancel()
            case "Speak" | "Flush" | "Close" if self._is_closing:
                pass
            case "Speak":
                assert command is not None
                self._add(command.text)
            case "Flush":
                self._flush()
            case "Close":
                self._close()
            case _:
                await self._refuse(frame.data, COMMANDS)

    async def _send_sentences(self, spoken: Spoken) -> None:
        """Send nothing: Deepgram's clients know no sentences."""

    async def _send_flushed(self, figures: Mapping[str, Any]) -> None:
        for warning in figures["warnings"]:
            await self._send({"type": "Warning", "code": "TEXT", "description": warning})
        await self._answer("Flushed")

    async def _send_cancelled(self) -> None:
        await self._answer("Cleared")

    async def _answer(self, kind: str) -> None:
        await self._send({"type": kind, "sequence_id": self._num_answers})
        self._num_answers += 1

    def _end(self) -> Mapping[str, Any] | None:
        """Return none: the close frame is the end."""
        return None
