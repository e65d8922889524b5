"""`/v1/speak`: texts of Deepgram's clients as audio, whole or while they are written."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal

from aiohttp import web

import conch
from conch.families.options import option
from conch.gateway import speak as conchs
from conch.gateway.bodies import body_of, read_object
from conch.gateway.deepgram.parameters import read
from conch.gateway.deepgram.results import Message, model_uuid
from conch.gateway.deepgram.sockets import DeepgramSession, is_conchs
from conch.gateway.doors import DEEPGRAM_SPEAK, DEEPGRAM_SPEECH
from conch.gateway.errors import named, one_of
from conch.gateway.models import SPEECH_MODELS
from conch.gateway.socket_session import hold
from conch.gateway.speak import SpeakSession
from conch.gateway.speech import SpeechAnswer, SpeechFields, check_text, text_in
from conch.gateway.state import CALLER, GATEWAY
from conch.gateway.voicing import OPTIONS, Voicing
from conch.wire.errors import OptionError

FORMATS: Mapping[str, Mapping[str, str]] = {
    "linear16": {"wav": "wav", "none": "pcm_s16"},
    "mulaw": {"wav": "wav_mulaw", "none": "mulaw"},
    "alaw": {"wav": "wav_alaw", "none": "alaw"},
    "mp3": {"none": "mp3"},
    "opus": {"ogg": "opus"},
    "flac": {"none": "flac"},
    "aac": {"none": "aac"},
}
"""Formats by encoding and container, the default first. A WebSocket sends bare samples."""
RATES = {"linear16": 24_000, "mulaw": 8_000, "alaw": 8_000}
"""Default rates in Hz; others are those of the voice."""
_AURA = re.compile(r"aura(-2)?-[a-z]+-en")
"""Names of Deepgram's English voices."""


@dataclass(frozen=True, kw_only=True)
class SpeakParameters:
    model: str = option("", "a voice; Deepgram's English voices mean the default voice")
    encoding: Literal["linear16", "mulaw", "alaw", "mp3", "opus", "flac", "aac"] = option(
        None, "of the audio", otherwise="mp3, and linear16 over a WebSocket"
    )
    container: Literal["wav", "ogg", "none"] = option(
        None, "of the audio", otherwise="wav with linear16, mulaw and alaw, ogg with opus"
    )
    sample_rate: int = option(0, "Hz; 0 is 24000, 8000, or the voice's own", low=0, high=48_000)
    speed: float = option(1.0, "how fast", low=0.25, high=4)


_CONCHS = {"format", *OPTIONS} - {item.name for item in fields(SpeakParameters)}
"""Names in a query that Conch's own protocol alone knows."""


def voicing_of(sent: Sequence[tuple[str, str]], *, live: bool) -> Voicing:
    """Return how texts are to sound; raise an ApiError or OptionError for a wrong parameter."""
    asked = read(SpeakParameters, sent)
    encoding = asked.encoding or ("linear16" if live else "mp3")
    containers = FORMATS[one_of("encoding", encoding, tuple(RATES if live else FORMATS))]
    known = ("none",) if live else tuple(containers)
    format = containers[one_of("container", asked.container or known[0], known)]
    rate = asked.sample_rate or RATES.get(encoding, 0)
    options: dict[str, Any] = {"sample_rate": rate, "speed": asked.speed}
    if asked.model not in ("", *SPEECH_MODELS) and not _AURA.fullmatch(asked.model):
        options["voice"] = asked.model
    try:
        return Voicing.parse(options, format)
    except OptionError as error:
        raise named(error, {"voice": "model"}) from None


async def speak(request: web.Request) -> web.StreamResponse:
    gateway = request.app[GATEWAY]
    voicing = voicing_of([*request.query.items()], live=False)
    with gateway.text_of(request[CALLER]) as begin:
        within_s = gateway.config.times.idle_s
        sent = read_object(await body_of(request, DEEPGRAM_SPEECH.max_message_bytes, within_s))
        check_text("text", text := text_in(sent, "text"))
        begin()
        ignored = tuple(name for name in sent if name != "text")
        return await SpeechAnswer(request, SpeechFields(text, voicing, False, ignored)).stream()


async def speak_live(request: web.Request) -> web.StreamResponse:
    if is_conchs(request, _CONCHS):
        return await conchs.speak(request)
    voicing = voicing_of([*request.query.items()], live=True)
    socket = DeepgramSession.socket(request, DEEPGRAM_SPEAK)
    return await hold(request, socket, lambda client: _Session(request, socket, client, voicing))


class _Session(DeepgramSession, SpeakSession):
    commands: ClassVar[Mapping[str, str]] = {
        "Speak": "text",
        "Flush": "flush",
        "Clear": "cancel",
        "Close": "close",
    }
    _num_answers = 0
    """Answers to `Flush` and `Clear` so far."""

    def _told(self, message: Message) -> Message | None:
        match message["type"]:
            case "ready":
                voice = {"model_name": message["voice"], "model_version": conch.__version__}
                ids = {"request_id": self._request_id, "model_uuid": model_uuid(message["voice"])}
                return {"type": "Metadata", **ids, **voice}
            case "flushed" | "cancelled" as kind:
                self._num_answers += 1
                told = {"flushed": "Flushed", "cancelled": "Cleared"}[kind]
                return {"type": told, "sequence_id": self._num_answers - 1}
        return None

    async def end(self) -> None:
        """Send nothing: the close frame is the end."""
