"""Events of one connection, with limits that the package `wyoming` leaves open."""

import asyncio
import json
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray
from wyoming.audio import AudioFormat
from wyoming.event import Event, Eventable, async_read_event, async_write_event

from conch.client.timeouts import timeout
from conch.gateway.doors import WYOMING_LISTEN
from conch.gateway.errors import invalid
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
        """Read and write nothing yet; a client has `send_s` seconds to take an event."""
        self._reader, self._writer, self._send_s = _Limited(reader), writer, send_s

    @property
    def is_cut(self) -> bool:
        """Whether a part of an event was read, and the rest was not: nothing can follow."""
        return self._reader.is_inside

    async def next(self) -> Event | None:
        """Return the next event; None at the end.

        Raises:
            InvalidRequestError: it is no event, or too long, or a field has a wrong type.
            ConnectionError: the client is gone.
        """
        try:
            event = await async_read_event(self._reader)  # type: ignore[arg-type]
            if event is not None and not isinstance(event.data, dict):
                raise InvalidRequestError("the data of a Wyoming event is an object")
        except asyncio.IncompleteReadError:
            return None
        except _WrongBytesError as error:
            raise InvalidRequestError(str(error)) from None
        # What the package raises for JSON that is no event.
        except (AttributeError, KeyError, TypeError):
            raise InvalidRequestError("a Wyoming event is a line of JSON with its type") from None
        self._reader.is_inside = False
        if event is not None:
            try:
                msgspec.convert(event.data, _Fields)
                json.dumps(event.data, ensure_ascii=False).encode()  # no half of a character
            except ValueError as error:
                wrong = f"a field of the event {event.type!r:.40} is wrong: {error}"
                raise InvalidRequestError(f"{wrong}; sent: {event.data!r:.80}") from None
        return event

    async def send(self, event: Eventable) -> None:
        """Send an event.

        Raises:
            ConnectionResetError: the client is gone, or does not read.
        """
        try:
            async with timeout(self._send_s):
                await async_write_event(event.event(), self._writer)
        except asyncio.TimeoutError:
            self._writer.transport.abort()
            raise ConnectionResetError("the client does not read") from None


class _Voice(msgspec.Struct):
    name: str | None = None
    language: str | None = None


class _Fields(msgspec.Struct):
    """The fields of all events, with their types, which the package does not check."""

    rate: int = 0
    width: int = 0
    channels: int = 0
    text: str | None = None
    text_format: str | None = None
    voice: _Voice = msgspec.field(default_factory=_Voice)
    name: str | None = None
    language: str | None = None
    transcript_names: list[str] | None = None
    transcript_terms: list[str] | None = None


class _WrongBytesError(Exception):
    """Bytes that are no event. The package takes a ValueError for the end of the connection."""


class _Limited:
    """A reader for `async_read_event` that refuses what is too long before it is held."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self.is_inside = False
        """Whether an event has begun, and its end was not read."""

    async def readline(self) -> bytes:
        try:
            line = await self._reader.readline()
            self.is_inside = True
            if line:
                json.loads(line)
        except ValueError:
            self.is_inside = True
            raise _WrongBytesError(
                "a Wyoming event is a line of JSON of at most 64 KB, then its data and payload"
            ) from None
        return line

    async def readexactly(self, count: Any) -> bytes:
        if not isinstance(count, int) or count > MAX_EVENT_BYTES:
            raise _WrongBytesError(
                f"data and payload of a Wyoming event take at most {MAX_EVENT_BYTES} bytes each; "
                f"sent: {count!r:.40}"
            )
        return await self._reader.readexactly(count)


def samples_of(audio: bytes, format: AudioFormat) -> NDArray[Any]:
    """Return mono samples [N]: int16 of 16 bits and one channel, otherwise float32.

    Raises:
        ApiError: bytes and format do not fit, or the format is none that is taken.
    """
    width, channels = format.width, format.channels
    if width not in _SCALES:
        raise invalid("width", f"width takes 1, 2 or 4 bytes a sample; sent: {width!r:.40}")
    if not 1 <= channels <= 16:
        raise invalid("channels", f"channels takes 1 to 16; sent: {channels!r:.40}")
    if len(audio) % (width * channels):
        raise invalid(
            None,
            f"an audio chunk has whole samples of {width * channels} bytes; it has {len(audio)}",
        )
    if width == 2 and channels == 1:
        return np.frombuffer(audio, "<i2").astype(np.int16, copy=False)
    found = np.frombuffer(audio, "u1" if width == 1 else f"<i{width}").astype(np.float32)
    found = (found - (128 if width == 1 else 0)) / _SCALES[width]
    mono: NDArray[np.float32] = found.reshape(-1, channels).mean(1, dtype=np.float32)
    return mono
