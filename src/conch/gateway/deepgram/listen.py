"""`/v1/listen`: recordings and live audio of Deepgram's clients."""

import asyncio
import hashlib
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, ClassVar

from aiohttp import web

from conch.audio.encoding import wav_header
from conch.audio.sniffing import NUM_NAMED_BYTES
from conch.gateway import listen as conchs
from conch.gateway.deepgram.parameters import (
    FileParameters,
    LiveParameters,
    Parameters,
    StreamParameters,
    read,
    recognition_options,
)
from conch.gateway.deepgram.results import LiveResults, Message, file_answer
from conch.gateway.deepgram.sockets import DeepgramSession, is_conchs
from conch.gateway.doors import DEEPGRAM_FILE, DEEPGRAM_LISTEN
from conch.gateway.errors import ApiError
from conch.gateway.form import uploaded
from conch.gateway.limits import check_length
from conch.gateway.listen import ListenQuery, ListenSession
from conch.gateway.live_audio import ENCODINGS, WAV_FORMS, check_samples
from conch.gateway.option_fields import granted, taken_options, wishes_among
from conch.gateway.servers import SessionClient
from conch.gateway.socket_session import LiveSocket, command_in, hold
from conch.gateway.state import CALLER, GATEWAY, REQUEST_ID, Gateway
from conch.gateway.transcriptions import transcript_of
from conch.wire.options import RecognitionOptions
from conch.wire.result import strict_json

_CONCHS = {*conchs.OWN, *taken_options()} - {item.name for item in fields(LiveParameters)}
_ENCODINGS = {*ENCODINGS} - {"mulaw", "alaw"}
"""Names in a query, and encodings, that Conch's own protocol alone knows."""


async def transcribe(request: web.Request) -> web.Response:
    gateway = request.app[GATEWAY]
    if request.content_type == "application/json":
        message = "the body takes audio: this server fetches no url"
        raise ApiError(415, message, param="url", code="unsupported_media_type")
    asked = read(FileParameters, [*request.query.items()])
    options = await granted_options(asked, gateway)
    head = b""
    if form := WAV_FORMS.get(asked.own_encoding):
        head = wav_header(asked.own_rate, None, asked.channels, *form)
    with gateway.file_of(request[CALLER]) as begin:
        async with uploaded(request, head=head) as sent:
            begin()
            if head:
                sent.file.seek(len(head))
                check_samples(sent.file.read(NUM_NAMED_BYTES), asked.own_encoding)
            await asyncio.to_thread(check_length, sent.file, gateway.config.max_audio_s)
            transcript = await transcript_of(request, sent, options, DEEPGRAM_FILE.address)
            known = request[REQUEST_ID], sent.digest
            # In a thread: an hour of words takes a while to write.
            text = await asyncio.to_thread(
                lambda: strict_json(file_answer(transcript, asked, *known))
            )
            return web.Response(text=text, content_type="application/json")


async def listen(request: web.Request) -> web.StreamResponse:
    if is_conchs(request, _CONCHS) or request.query.get("encoding") in _ENCODINGS:
        return await conchs.listen(request)
    asked = read(LiveParameters, [*request.query.items()])
    socket = DeepgramSession.socket(request, DEEPGRAM_LISTEN)
    options = await granted_options(asked, request.app[GATEWAY])
    return await hold(
        request,
        socket,
        lambda client: _Session(request, socket, client, asked, options),
    )


async def granted_options(asked: Parameters, gateway: Gateway) -> RecognitionOptions:
    """Return the options that parameters set, without the wishes that the server cannot do."""
    options = recognition_options(asked, gateway.model_aliases)
    wished = {"punctuate"} if asked.numerals else {"punctuate", "itn"}
    wishes = wishes_among(options.sent.keys() & wished, options)
    live = isinstance(asked, StreamParameters)
    return (await granted(gateway.servers, options, wishes, live=live))[0]


class DeepgramListenSession(DeepgramSession, ListenSession):
    """A session of live audio that keeps the settings it began with."""

    async def _obey(self, text: str) -> None:
        command = command_in(text)
        if command is None or command.type != "Configure":
            return await super()._obey(text)
        description = "a session keeps the settings it began with: open another one"
        failure = {"request_id": self._request_id, "code": "CONFIGURE_KEYTERMS_NOT_SUPPORTED"}
        await self._send({"type": "ConfigureFailure", **failure, "description": description})


class _Session(DeepgramListenSession):
    commands: ClassVar[Mapping[str, str]] = {
        "CloseStream": "close",
        "KeepAlive": "keepalive",
        "Finalize": "finalize",
    }

    def __init__(
        self,
        request: web.Request,
        socket: LiveSocket,
        client: SessionClient,
        asked: LiveParameters,
        options: RecognitionOptions,
    ) -> None:
        self._asked, self._digest = asked, hashlib.sha256()
        query = ListenQuery(asked.own_encoding, asked.own_rate, options)
        super().__init__(request, socket, client, query)

    def _make_messages(self) -> Any:
        pause_s = self._query.options.endpoint_silence_ms / 1000
        return LiveResults(self._asked, pause_s, self._request_id, self._digest)

    def _told(self, message: Message) -> Message | None:
        return None if message["type"] == "ready" else message

    async def _hear(self, data: bytes, *, ends: bool = False) -> None:
        self._digest.update(data)
        await super()._hear(data, ends=ends)
