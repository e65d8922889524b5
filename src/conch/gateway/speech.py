"""`POST /v1/audio/speech`: a text as audio, from its first chunk on."""

import base64
import hashlib
import logging
import time
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass, fields, replace
from typing import Any

from aiohttp import web

from conch.client import AsyncClient, Speech
from conch.gateway.bodies import StreamedAnswer, body_of, read_object
from conch.gateway.doors import SPEECH
from conch.gateway.errors import ApiError, api_error, one_of, wrong
from conch.gateway.file_answer import ignored_header
from conch.gateway.models import DEFAULT_MODEL, SPEECH_MODELS, known_name, unknown_model
from conch.gateway.state import CALLER, GATEWAY, REQUEST_ID
from conch.gateway.voicing import FORMATS, Voicing, counted, encoded
from conch.wire.errors import ConchError, TextError
from conch.wire.synthesis import SpokenSentence, SynthesisOptions

logger = logging.getLogger(__name__)

MAX_INPUT = 100_000
"""Characters of a text; OpenAI takes 4096."""
STREAM_FORMATS = ("audio", "sse")
OPTIONS = tuple(
    item.name for item in fields(SynthesisOptions) if item.name not in ("voice", "format")
)
"""Fields that are options under the same name."""
KNOWN = {"model", "input", "voice", "instructions", "response_format", "stream_format", *OPTIONS}
TOKENS_A_SECOND = 10
"""Tokens of audio that `usage` counts for a second."""


@dataclass(frozen=True, slots=True)
class SpeechFields:
    text: str
    voicing: Voicing
    is_events: bool
    ignored: tuple[str, ...]
    """Fields that change nothing."""


def read(body: bytes, aliases: Mapping[str, str]) -> SpeechFields:
    """Read the body of a request; raise an ApiError or InvalidRequestError for a wrong field."""
    sent = read_object(body)
    texts = {name: text_in(sent, name) for name in ("model", "input", "response_format")}
    check_model(texts["model"], aliases)
    check_text("input", text := texts["input"])
    response_format = one_of("response_format", texts["response_format"] or "mp3", tuple(FORMATS))
    stream = one_of("stream_format", text_in(sent, "stream_format") or "audio", STREAM_FORMATS)
    options = {name: sent[name] for name in OPTIONS if sent.get(name) is not None}
    if (voice := _voice(sent.get("voice"))) is not None:
        options["voice"] = voice
    voicing = Voicing.parse(options, FORMATS[response_format])
    ignored = tuple(
        name for name in sent if name not in KNOWN or (name == "instructions" and sent[name])
    )
    return SpeechFields(text, voicing, stream == "sse", ignored)


def check_text(name: str, text: str) -> None:
    """Raise a TextError for a text that is too long, or empty."""
    if len(text) > MAX_INPUT:
        raise TextError(f"{name} takes at most {MAX_INPUT} characters; sent: {len(text)}")
    if not text.strip():
        raise TextError(f"{name} takes a text with words; the one that was sent is empty")


def check_model(model: str, aliases: Mapping[str, str]) -> None:
    """Raise an ApiError if a model is none that speaks."""
    name = known_name(model or DEFAULT_MODEL, aliases)
    if aliases.get(name, name) not in SPEECH_MODELS:
        raise unknown_model(model, aliases, SPEECH_MODELS)


def text_in(sent: Mapping[str, Any], name: str) -> str:
    """Return a text of a body, empty for null; raise an ApiError for another type."""
    value = sent.get(name, "")
    if value is None:
        return ""
    if not isinstance(value, str):
        raise wrong(name, "a text", value)
    return value


def _voice(sent: Any) -> str | None:
    """Return the voice of the field `voice`, which may be an object with its id; None for none."""
    name = sent.get("id") if isinstance(sent, dict) else sent
    if name is not None and not isinstance(name, str):
        raise wrong("voice", "the name of a voice", sent)
    return name


async def speak(request: web.Request) -> web.StreamResponse:
    """Answer with the audio of a text, while it is made.

    A client that goes away cancels this, and with it the work of the server. One that reads slowly
    stops it, some sentences ahead.
    """
    gateway, caller = request.app[GATEWAY], request[CALLER]
    with gateway.text_of(caller) as begin:
        body = await body_of(request, SPEECH.max_message_bytes, gateway.config.times.idle_s)
        speech = read(body, gateway.model_aliases)
        begin()
        return await SpeechAnswer(request, speech).stream()


class SpeechAnswer:
    def __init__(self, request: web.Request, speech: SpeechFields) -> None:
        self._request, self._speech = request, speech
        self._gateway, self._began = request.app[GATEWAY], time.monotonic()
        self._begun: tuple[SpokenSentence, ...] = ()
        """Sentences that begin in audio which is not sent yet."""
        content_type = "text/event-stream" if speech.is_events else speech.voicing.content_type
        self._stream = StreamedAnswer(request, content_type, ignored_header(speech.ignored))

    async def stream(self) -> web.StreamResponse:
        """Send the audio as it comes; raise an ApiError or ConchError only if nothing was sent."""
        try:
            # Before its first piece an answer may still come from another server.
            await self._gateway.servers.answer(self._send_all, digest_of(self._speech.text))
        except (ApiError, ConchError) as error:
            if not self._stream.prepared:
                raise
            if not self._speech.is_events:
                # Audio has no place for an error: the client sees that it is not complete.
                logger.warning("an answer is broken off: %s", error)
                assert self._request.transport is not None
                self._request.transport.abort()
                return self._stream
            await self._stream.send_event({"error": api_error(error).as_dict()})
        await self._stream.write_eof()
        return self._stream

    async def _send_all(self, client: AsyncClient) -> None:
        speech, encoder = self._speech, self._speech.voicing.encoder()
        self._begun = ()
        options = {"request_id": self._request[REQUEST_ID], **speech.voicing.options}
        stream = client.synthesize_stream(speech.text, **options)
        caller = self._request[CALLER]
        spoken = counted(stream, self._gateway, caller, self._request.path, lambda: self._began)
        try:
            async with aclosing(spoken) as pieces:
                async for piece in pieces:
                    await self._send(piece, await encoded(encoder, piece))
            if speech.is_events:
                words = len(speech.text.split())
                tokens = round(TOKENS_A_SECOND * piece.spoken.duration)
                usage = {"input_tokens": words, "output_tokens": tokens}
                usage["total_tokens"] = words + tokens
                last = replace(piece.spoken, sentences=self._begun)
                event = {"type": "speech.audio.done", "usage": usage, "spoken": last}
                await self._stream.send_event(event)
        except ConchError as error:
            if not self._stream.prepared:
                raise
            raise api_error(error) from error

    async def _send(self, piece: Speech, audio: bytes) -> None:
        self._begun += piece.spoken.sentences
        if not audio:
            return
        await self._stream.prepare(self._request)  # it has an effect once
        if not self._speech.is_events:
            return await self._stream.write(audio)
        text = base64.b64encode(audio).decode()
        # Only the event at the end has figures.
        spoken = replace(piece.spoken, sentences=self._begun, stages={}, warnings=())
        self._begun = ()
        event = {"type": "speech.audio.delta", "audio": text, "spoken": spoken}
        await self._stream.send_event(event)


def digest_of(text: str) -> str:
    """Return the SHA-256 of a text, in hexadecimal digits."""
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
