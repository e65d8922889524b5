"""Riva's synthesis: `Synthesize`, `SynthesizeOnline` and `GetRivaSynthesisConfig`."""

import html
import re
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any, TypeAlias

from conch.audio.encoding import Encoder
from conch.client import AsyncClient, Speech
from conch.gateway.errors import ApiError, api_error, invalid, named, wrong
from conch.gateway.riva.calls import RpcCall
from conch.gateway.riva.protocol import Message
from conch.gateway.riva.recognition_config import encoding_of
from conch.gateway.speech import MAX_INPUT, digest_of
from conch.gateway.state import Gateway
from conch.gateway.voicing import OPTIONS, Voicing, counted, encoded, served_voices
from conch.wire.entry_points import SYNTHESIS
from conch.wire.errors import ConchError, OptionError, ServerError
from conch.wire.languages import code_of
from conch.wire.option_values import options_of_text
from conch.wire.synthesis import RATES, SpokenSentence, shares_of, synthesizer_of

VOICE_MODEL = "Conch"
"""Model of all voices: clients name a voice as `model.voice`."""

FORMATS = {"": "pcm_s16", "LINEAR_PCM": "pcm_s16", "OGGOPUS": "opus", "FLAC": "flac"}
"""Formats of the audio by encoding; empty for none that was sent."""
_FIELDS = {
    "sample_rate": "sample_rate_hz",
    "voice": "voice_name",
    "timestamps": "enable_word_time_offsets",
}
"""Fields by the options that they set."""
_NVIDIAS = re.compile(r"(English-US|Magpie-[\w-]+\.EN-US)([.-].*)?", re.IGNORECASE)
"""Names of NVIDIA's voices for English, which mean the default voice."""
_IS_SSML = re.compile(r"(?:<[?!].*)?<speak\b", re.DOTALL)
_SSML = re.compile(r"\s*(?:<\?xml[^>]*>\s*)?<speak\b[^>]*>(.*)</speak>\s*", re.DOTALL)
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_STRUCTURE = re.compile(r"(?:</?[ps](?:\s[^<>]*)?/?>\s*)+")
"""Tags of SSML for paragraphs and sentences."""
_TAG = re.compile(r"</?([A-Za-z!?][^\s/>]*)")

Send: TypeAlias = Callable[[Message], Awaitable[None]]


def text_and_voicing(request: Message) -> tuple[str, Voicing]:
    """Return the text of a request, and how it is to sound; an ApiError names a wrong field."""
    if not 0 < len(text := _without_markup(request.text.strip())) <= MAX_INPUT:
        raise invalid("text", f"text takes 1 to {MAX_INPUT} characters; sent: {len(text)}")
    for field in ("zero_shot_data", "custom_dictionary"):
        if field in {sent.name for sent, _ in request.ListFields()}:
            raise invalid(field, f"{field} has no counterpart here: leave it out")
    encoding = encoding_of(request.encoding)
    if encoding not in FORMATS:
        takes = ", ".join(filter(None, FORMATS))
        raise invalid("encoding", f"encoding takes {takes}; sent: {encoding}")
    format = FORMATS[encoding]
    try:
        options = options_of_text(dict(request.custom_configuration), OPTIONS)
        if (voice := _voice(request.voice_name)) and "voice" not in options:
            options["voice"] = voice
        if request.enable_word_time_offsets:
            options["timestamps"] = True
        if rate := request.sample_rate_hz:
            # Opus is decoded at any rate, and made at few.
            rates = (known for known in RATES.get(format, ()) if known >= rate)
            options["sample_rate"] = min(rates, default=rate)
        voicing = Voicing.parse(options, format)
    except OptionError as error:
        raise named(error, _FIELDS) from None
    _check_language(request.language_code, voicing.voice)
    return text, voicing


def _without_markup(text: str) -> str:
    """Return a text, or the one in SSML of structure tags alone; else raise an ApiError."""
    if not _IS_SSML.match(text):
        return text
    match = _SSML.fullmatch(_COMMENT.sub("", text))
    if not match:
        raise invalid(
            "text", f"text takes SSML of <speak>…</speak> without a DOCTYPE; sent: {text!r:.40}"
        )
    plain = _STRUCTURE.sub("\n\n", match[1])
    if tag := _TAG.search(plain):
        raise invalid("text", f"text: SSML's <{tag[1]:.40}> has no counterpart here: leave it out")
    return html.unescape(plain).strip()


def _voice(name: str) -> str:
    """Return the value of the option `voice` for a name; empty for the default."""
    return "" if _NVIDIAS.fullmatch(name) else name.removeprefix(f"{VOICE_MODEL}.")


def _check_language(sent: str, voice: str) -> None:
    first = next(iter(shares_of(voice)))
    spoken = next(item.language for item in synthesizer_of(voice).voices if item.name == first)
    if sent and code_of(sent) not in ("auto", code_of(spoken)):
        raise wrong("language_code", f"{spoken} with voice {voice}", sent)


async def synthesis_config(call: RpcCall) -> None:
    requested = (await call.request()).model_name
    if requested not in ("", VOICE_MODEL):
        raise ApiError(404, f"no model {requested!r:.80}; this server has {VOICE_MODEL}")
    response = call.method.response()
    by_language: dict[str, list[str]] = {}
    for voice in await served_voices(call.gateway):
        by_language.setdefault(voice.language, []).append(voice.name)
    for language, names in by_language.items():
        config = response.model_config.add(model_name=VOICE_MODEL)
        config.parameters.update(
            language_code=language, voice_name=VOICE_MODEL, subvoices=",".join(names)
        )
    await call.send(response)


async def synthesize(call: RpcCall) -> None:
    synthesis, parts = _SynthesisCall(call), list[Message]()

    async def keep(part: Message) -> None:
        parts.append(part)

    await synthesis.speak(*text_and_voicing(await call.request()), keep)
    await synthesis.finish(keep)
    texts = {
        name: " ".join(filter(None, (getattr(part.meta, name) for part in parts)))
        for name in ("text", "processed_text")
    }
    words = [word for part in parts for word in part.meta.words]
    audio = b"".join(part.audio for part in parts)
    await call.send(call.method.response(audio=audio, meta={**texts, "words": words}))


async def synthesize_online(call: RpcCall) -> None:
    """Answer texts with their audio, one after the other, while it is made."""
    synthesis = _SynthesisCall(call)
    while (request := await call.next_request()) is not None:
        await synthesis.speak(*text_and_voicing(request), call.send)
    await synthesis.finish(call.send)


async def _check_voice(gateway: Gateway) -> None:
    """Raise an ApiError if no server speaks."""
    if gateway.servers.is_ready and not await served_voices(gateway):
        raise ApiError(
            501,
            "this server has no voice: conch serve without --models loads one when a text comes, "
            f"with --models it takes {SYNTHESIS[0]}",
            code="not_supported",
        )


class _SynthesisCall:
    """Speaks the texts of one call; their audio is one file."""

    def __init__(self, call: RpcCall) -> None:
        self._call, self._gateway = call, call.gateway
        self._encoder: Encoder | None = None
        self._form: tuple[str, int] | None = None
        """Format and rate of the audio."""
        self._spoken_s = 0.0
        """Seconds of the texts before."""

    async def speak(self, text: str, voicing: Voicing, send: Send) -> None:
        """Send the audio of a text as it comes.

        Raise an ApiError if its audio is to be of another form than before, or if the server fails
        after a part was sent; before that, a ConchError.
        """
        form = voicing.format, voicing.rate
        if self._form is None or self._encoder is None:
            self._form, self._encoder = form, voicing.encoder()
        elif form != self._form:
            raise invalid(
                "encoding",
                "encoding and sample_rate_hz stay as in the first request of a call, "
                f"{' at '.join(map(str, self._form))} Hz; sent: {' at '.join(map(str, form))} Hz",
            )
        caller, began, before_s = self._call.caller, time.monotonic(), self._spoken_s
        accounting = self._gateway, caller, self._call.method.path
        encoder = self._encoder

        async def ask(client: AsyncClient) -> None:
            stream = client.synthesize_stream(
                text, request_id=self._call.request_id, **voicing.options
            )
            try:
                async with aclosing(counted(stream, *accounting, lambda: began)) as pieces:
                    async for piece in pieces:
                        spoken = piece.spoken.later(before_s)
                        self._spoken_s = spoken.duration
                        await self._send(replace(piece, spoken=spoken), encoder, send)
            except ConchError as error:
                if self._spoken_s == before_s:
                    raise
                raise api_error(error) from error

        try:
            with self._gateway.text_of(caller, has_come=True):
                await self._gateway.servers.answer(ask, digest_of(text))
        except ServerError:
            await _check_voice(self._gateway)
            raise

    async def _send(self, piece: Speech, encoder: Encoder, send: Send) -> None:
        audio, sentences = await encoded(encoder, piece, ends=False), piece.spoken.sentences
        if audio or sentences:
            await send(self._call.method.response(audio=audio, meta=_meta(sentences)))

    async def finish(self, send: Send) -> None:
        """Send the end of the file, if it has one."""
        if self._encoder is not None and (audio := self._encoder.finish()):
            await send(self._call.method.response(audio=audio))


def _meta(sentences: Sequence[SpokenSentence]) -> dict[str, Any]:
    """Return the fields of a SynthesizeSpeechResponseMetadata."""
    return {
        "text": " ".join(item.text for item in sentences),
        "processed_text": " ".join(item.phonemes for item in sentences),
        "words": [
            {
                "word": word.text,
                "start_time": round(1000 * word.start),
                "end_time": round(1000 * word.end),
            }
            for item in sentences
            for word in item.words
        ],
    }
