"""`POST /v1/speak`: a text as audio, for Deepgram's clients; and the query of both doors."""

import re
from collections.abc import Mapping, Sequence

from aiohttp import web

from conch.gateway.bodies import body_of, read_object
from conch.gateway.deepgram.parameters import Query
from conch.gateway.doors import DEEPGRAM_SPEECH
from conch.gateway.errors import invalid, named, one_of
from conch.gateway.models import SPEECH_MODELS
from conch.gateway.speech import SpeechAnswer, SpeechFields, check_text, text_in
from conch.gateway.state import CALLER, GATEWAY
from conch.gateway.voicing import Voicing
from conch.wire.errors import OptionError

PARAMETERS: Mapping[str, str] = {
    "model": "A voice of Conch. Deepgram's English voices mean the default voice.",
    "encoding": "linear16, mulaw, alaw; over HTTP also mp3, opus, flac, aac.",
    "container": "wav, ogg or none, as the encoding takes it.",
    "sample_rate": "Hz.",
    "bit_rate": "Bits a second of mp3, opus and aac.",
    "speed": "How fast.",
}
HINTS = ("mip_opt_out", "tag")
REFUSED = ("callback", "callback_method")
CONTAINERS: Mapping[tuple[str, str], str] = {
    ("linear16", "wav"): "wav",
    ("linear16", "none"): "pcm_s16",
    ("mulaw", "wav"): "wav_mulaw",
    ("mulaw", "none"): "mulaw",
    ("alaw", "wav"): "wav_alaw",
    ("alaw", "none"): "alaw",
    ("mp3", "none"): "mp3",
    ("opus", "ogg"): "opus",
    ("flac", "none"): "flac",
    ("aac", "none"): "aac",
}
"""Formats by encoding and container, the default of an encoding first."""
RATES = {"linear16": 24_000, "mulaw": 8_000, "alaw": 8_000}
"""Default rates in Hz; others are those of the voice."""
BIT_RATES = {"mp3": (8_000, 320_000), "opus": (4_000, 650_000), "aac": (4_000, 192_000)}
_AURA = re.compile(r"aura(-2)?-[a-z]+-en")


def voicing_of(sent: Sequence[tuple[str, str]], *, live: bool) -> Voicing:
    """Return how a query wants its texts to sound; raise an ApiError for a wrong parameter."""
    query = Query(sent, {*PARAMETERS}, HINTS, REFUSED)
    known = dict.fromkeys(name for name, _ in CONTAINERS if not live or name in RATES)
    default = "linear16" if live else "mp3"
    encoding = one_of("encoding", query.text("encoding") or default, tuple(known))
    containers = [made for name, made in CONTAINERS if name == encoding]
    if live:
        containers = ["none"]
    container = one_of("container", query.text("container") or containers[0], containers)
    rate = query.number("sample_rate", 8_000, 48_000, otherwise=RATES.get(encoding, 0))
    options: dict[str, int | float | str] = {"sample_rate": rate} if rate else {}
    if not _AURA.fullmatch(voice := query.text("model")) and voice not in ("", *SPEECH_MODELS):
        options["voice"] = voice
    if query.text("speed"):
        options["speed"] = query.decimal("speed", 1.0, 4.0)
    limits = BIT_RATES.get(encoding)
    bit_rate = query.number("bit_rate", *limits) if limits else 0
    try:
        return Voicing.parse(options, CONTAINERS[encoding, container], bit_rate)
    except OptionError as error:
        raise named(error, {"voice": "model"}) from None


async def speak(request: web.Request) -> web.StreamResponse:
    gateway, caller = request.app[GATEWAY], request[CALLER]
    with gateway.text_of(caller) as begin:
        voicing = voicing_of([*request.query.items()], live=False)
        within_s = gateway.config.times.idle_s
        sent = read_object(await body_of(request, DEEPGRAM_SPEECH.max_message_bytes, within_s))
        if "url" in sent:
            raise invalid("url", "the body takes text: this server fetches no url")
        check_text("text", text := text_in(sent, "text"))
        begin()
        ignored = tuple(name for name in sent if name != "text")
        fields = SpeechFields(text, voicing, is_events=False, ignored=ignored)
        return await SpeechAnswer(request, fields).stream()
