"""Events of one connection, with the limits and types that the package `wyoming` leaves open."""

import asyncio
import json
from typing import Annotated, Any

import msgspec
import numpy as np
from numpy.typing import NDArray
from wyoming.audio import AudioFormat
from wyoming.event import Event, Eventable, async_write_event

from conch.client.aio import timeout
from conch.gateway.bodies import read_json
from conch.gateway.doors import WYOMING_LISTEN
from conch.gateway.errors import invalid, wrong
from conch.wire.errors import InvalidRequestError

MAX_EVENT_BYTES = WYOMING_LISTEN.max_message_bytes
"""Bytes of the longest payload, and of the data beside it."""
_SCALES = {1: 2.0**7, 2: 2.0**15, 4: 2.0**31}
"""Full scale of a sample, by its bytes; one of a byte is unsigned."""


class Events:
    """Reads and writes the events of a connection."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, send_s: float
    ) -> None:
        """Give a client `send_s` seconds to take an event."""
        self._reader, self._writer, self._send_s = reader, writer, send_s
        self.is_cut = False
        """Whether a part of an event was read, and the rest was not: nothing can follow."""

    async def next(self) -> Event | None:
        """Return the next event, None at the end; raise InvalidRequestError or ConnectionError."""
        try:
            if not (line := await self._reader.readline()):
                return None
            self.is_cut = True
            head = msgspec.convert(read_json(line.decode()), _Head)
            if (longest := max(head.data_length or 0, head.payload_length or 0)) > MAX_EVENT_BYTES:
                raise ValueError(f"these take at most {MAX_EVENT_BYTES} bytes; sent: {longest}")
            more = await self._reader.readexactly(head.data_length or 0)
            payload = await self._reader.readexactly(head.payload_length or 0)
        except asyncio.IncompleteReadError:
            return None
        except ValueError as error:  # of the reader too, for a long line
            self.is_cut = True
            said = "an event is a line of JSON with its type of at most 64 KB, its data and payload"
            raise InvalidRequestError(f"{said}: {error!s:.200}") from None
        self.is_cut = False
        try:
            data = msgspec.convert(head.data, dict[str, Any])
            data |= msgspec.convert(read_json(more.decode() or "{}"), dict[str, Any])
            msgspec.convert(data, _Fields)
            json.dumps(data, ensure_ascii=False).encode()  # no half of a character
        except ValueError as error:
            wrong = f"a field of the event {head.type!r:.40} is wrong: {error}"
            raise InvalidRequestError(f"{wrong}; sent: {(more or head.data)!r:.80}") from None
        return Event(head.type, data, payload)

    async def send(self, event: Eventable) -> None:
        """Send an event; raise a ConnectionResetError if the client is gone, or does not read."""
        try:
            async with timeout(self._send_s):
                await async_write_event(event.event(), self._writer)
        except asyncio.TimeoutError:
            self._writer.transport.abort()
            raise ConnectionResetError("the client does not read") from None


class _Head(msgspec.Struct):
    """The line of an event; its data may stand in the bytes after it."""

    type: str
    data: Any = msgspec.field(default_factory=dict)
    data_length: Annotated[int, msgspec.Meta(ge=0)] | None = None
    payload_length: Annotated[int, msgspec.Meta(ge=0)] | None = None


class _VoiceFields(msgspec.Struct):
    name: str | None = None
    language: str | None = None


class _Fields(msgspec.Struct):
    """The fields of all events, with their types, which the package does not check."""

    rate: int = 0
    width: int = 0
    channels: int = 0
    text: str | None = None
    text_format: str | None = None
    voice: _VoiceFields = msgspec.field(default_factory=_VoiceFields)
    name: str | None = None
    language: str | None = None
    transcript_names: list[str] | None = None
    transcript_terms: list[str] | None = None


def samples_of(audio: bytes, format: AudioFormat) -> NDArray[Any]:
    """Return mono samples [N]: int16 of 16 bits and one channel, otherwise float32.

    Raise an ApiError if bytes and format do not fit, or the format is none that is taken.
    """
    width, channels = format.width, format.channels
    if width not in _SCALES:
        raise wrong("width", "1, 2 or 4 bytes a sample", width)
    if not 1 <= channels <= 16:
        raise wrong("channels", "1 to 16", channels)
    if len(audio) % (width * channels):
        raise invalid(
            None,
            f"an audio chunk has whole samples of {width * channels} bytes; it has {len(audio)}",
        )
    if width == 2 and channels == 1:
        return np.frombuffer(audio, "<i2").astype(np.int16, copy=False)
    samples = np.frombuffer(audio, "u1" if width == 1 else f"<i{width}").astype(np.float32)
    samples = (samples - (128 if width == 1 else 0)) / _SCALES[width]
    mono: NDArray[np.float32] = samples.reshape(-1, channels).mean(1, dtype=np.float32)
    return mono
