"""`synthesize`: a text, or its pieces while it is written, as audio from the first chunk on."""

import time
from collections.abc import AsyncIterable, Mapping
from contextlib import aclosing
from typing import Any

from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.tts import SynthesizeVoice

from conch.families import voices
from conch.gateway.doors import WYOMING_SPEAK
from conch.gateway.errors import wrong
from conch.gateway.state import Caller, Gateway
from conch.gateway.voicing import counted
from conch.gateway.wyoming.events import Events
from conch.wire.synthesis import DEFAULT_VOICE

ROUTE = WYOMING_SPEAK.address
_BYTES = 2
"""Bytes of a sample."""


def parse_options(voice: SynthesizeVoice | None, text_format: Any) -> dict[str, Any]:
    """Return the options of a `synthesize`; raise an ApiError for a wrong voice or text."""
    if text_format not in (None, "text"):
        raise wrong("text_format", "text", text_format)
    known = voices()
    if voice and voice.name and voice.name not in known:
        raise wrong("voice", ", ".join(known), voice.name)
    name = voice.name if voice and voice.name else DEFAULT_VOICE
    return {"voice": name, "format": "pcm_s16"}


async def speak(
    gateway: Gateway,
    caller: Caller,
    events: Events,
    text: str | AsyncIterable[str],
    options: Mapping[str, Any],
    request_id: str,
) -> None:
    """Send the audio of a text; raise an ApiError if nothing is free, or a ConchError."""
    began = time.monotonic()
    form: dict[str, int] | None = None
    with gateway.text_of(caller, has_come=True):
        async with gateway.servers.reserved() as client:
            stream = client.synthesize_stream(text, request_id=request_id, **options)
            spoken = counted(stream, gateway, caller, ROUTE, lambda: began)
            async with aclosing(spoken) as pieces:
                async for piece in pieces:
                    if not piece.audio:
                        continue
                    if form is None:
                        form = {"rate": piece.spoken.sample_rate, "width": _BYTES, "channels": 1}
                        await events.send(AudioStart(**form))
                    await events.send(AudioChunk(**form, audio=piece.audio))
    if form is not None:
        await events.send(AudioStop())
