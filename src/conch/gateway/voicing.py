"""Synthesis at every door: a text as it is written, its options, and its audio as it is made."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, fields
from typing import Any

from conch.audio.encoding import CONTENT_TYPES, G711_TYPES, Encoder
from conch.client import Speech
from conch.families import voices
from conch.families.family import Voice
from conch.gateway.errors import ApiError
from conch.gateway.state import Caller, Gateway
from conch.wire.entry_points import SYNTHESIS
from conch.wire.synthesis import SynthesisOptions, synthesizer_of

FORMATS = {
    **{name: name for name in ("mp3", "opus", "aac", "flac", "wav")},
    "pcm": "pcm_s16",
    "pcm_s16": "pcm_s16",
    "pcm_f32": "pcm_f32",
}
"""The option `format` of each `response_format`."""
OPTIONS = {
    item.name: item for item in fields(SynthesisOptions) if item.name not in ("format", "lead_ms")
}
"""Options of a call or a session, whose texts follow one another."""

MAX_WAITING = 100_000
"""Characters of a client that may wait to be spoken."""


@dataclass(frozen=True, slots=True)
class Voicing:
    """How a text is to sound. The server makes samples at `rate`, and the gateway encodes them."""

    options: Mapping[str, Any]
    """Options of the request to the server."""
    format: str
    voice: str
    rate: int
    """Hz of the audio."""
    is_fitted: bool = False
    """Whether the voice imitates a person."""

    @classmethod
    def parse(cls, options: Mapping[str, Any], format: str) -> "Voicing":
        """Return what options ask for; raise an OptionError for a wrong one."""
        made = "pcm_s16" if format in G711_TYPES else format
        parsed = SynthesisOptions.parse({**options, "format": made})
        by = synthesizer_of(parsed.voice)
        rate = parsed.sample_rate or by.sample_rate
        return cls({**options, "format": "pcm_f32"}, format, parsed.voice, rate, by.is_fitted)

    @property
    def content_type(self) -> str:
        return (CONTENT_TYPES | G711_TYPES)[self.format]

    def encoder(self) -> Encoder:
        return Encoder(self.format, self.rate, self.rate, is_fitted=self.is_fitted)


async def counted(
    pieces: AsyncGenerator[Speech, None],
    gateway: Gateway,
    caller: Caller,
    route: str,
    began: Callable[[], float],
) -> AsyncGenerator[Speech, None]:
    """Yield the pieces of a text, and count their seconds for the caller.

    `began` returns when the first of the text came, on the monotonic clock. Raise an ApiError once
    a stop has no more time for them.
    """
    spoken_s = 0.0
    async with aclosing(gateway.unbroken(pieces)) as unbroken:
        async for piece in unbroken:
            if piece.has_sound and not spoken_s:
                gateway.metrics.began(route, began())
            gateway.count_audio(caller, route, piece.spoken.duration - spoken_s)
            spoken_s = piece.spoken.duration
            yield piece


async def encoded(encoder: Encoder, piece: Speech, *, ends: bool = True) -> bytes:
    """Return the bytes of a piece; those of the last one end the file, if the text `ends` it."""

    def work() -> bytes:
        audio = encoder.write(piece.waveform)
        return audio + encoder.finish() if ends and piece.spoken.stages else audio

    return await asyncio.to_thread(work) if encoder.has_codec else work()


async def served_voices(gateway: Gateway) -> list[Voice]:
    """Return the voices whose components a server has, or loads when it needs them."""
    speaking = [*dict.fromkeys(voices().values())]
    needed = {SYNTHESIS[1]}.union(*(item.components for item in speaking))
    ready = await gateway.servers.ready_models(sorted(needed))
    if SYNTHESIS[1] not in ready:
        return []
    return [
        voice for item in speaking if ready.issuperset(item.components) for voice in item.voices
    ]


def check_waiting(num_characters: int) -> None:
    if num_characters > MAX_WAITING:
        waiting = f"{num_characters} characters would wait to be spoken"
        message = f"{waiting}; at most {MAX_WAITING} may"
        raise ApiError(429, message, code="backlog_exceeded")


class TextPieces:
    """The pieces of one text, for `AsyncClient.synthesize_stream`."""

    def __init__(self) -> None:
        self._pieces: asyncio.Queue[str | None] = asyncio.Queue()
        self.num_waiting = 0
        """Characters that were added and not read yet."""
        self.began = 0.0
        """When the first of it came, on the monotonic clock; 0 before."""

    def add(self, text: str) -> None:
        self.began = self.began or time.monotonic()
        self.num_waiting += len(text)
        self._pieces.put_nowait(text)

    def end(self) -> None:
        self._pieces.put_nowait(None)

    async def each(self) -> AsyncGenerator[str, None]:
        while (piece := await self._pieces.get()) is not None:
            self.num_waiting -= len(piece)
            yield piece
