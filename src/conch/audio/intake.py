"""Read what strangers send: every file and every live container, at every door.

FFmpeg decodes it in other processes, each of which has one source at a time: see
`conch.audio.worker`.
"""

import io
import struct
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing
from typing import IO, Annotated, Literal, TypeAlias

import msgspec
import numpy as np

from conch.audio.blocks import cut_to_blocks
from conch.audio.limits import check_rate
from conch.audio.messages import (
    ASK,
    BUSY,
    BYTES,
    DONE,
    ERROR,
    FORM,
    SAMPLES,
    WANTED,
)
from conch.audio.workers import DecoderProcess
from conch.component import FloatArray
from conch.wire.errors import AudioError, OverloadedError

Bytes: TypeAlias = Callable[[int, int], bytes]
"""Returns bytes of the source at an offset, at most so many; none at the end."""

_TYPES: Mapping[str, tuple[str, float]] = {
    "u8": ("u1", 2.0**7),
    "s16": ("<i2", 2.0**15),
    "s32": ("<i4", 2.0**31),
    "flt": ("<f4", 1.0),
    "dbl": ("<f8", 1.0),
}
"""Type and full scale of samples, by FFmpeg's names."""


class SampleFormat(msgspec.Struct, frozen=True):
    """What a decoder says before its first samples."""

    rate: int
    """Hz."""
    channels: Annotated[int, msgspec.Meta(ge=1, le=1024)]
    kind: Literal["u8", "s16", "s32", "flt", "dbl"]
    length_s: float | None
    """Length in seconds by the header, None if it has none."""

    def samples(self, data: bytes) -> FloatArray:
        """Return samples, FP32 [samples, channels] in [-1, 1]."""
        dtype, scale = _TYPES[self.kind]
        found: FloatArray = np.frombuffer(data, dtype).astype(np.float32)
        if self.kind == "u8":
            found -= scale
        if scale != 1:
            found *= np.float32(1 / scale)
        return found.reshape(-1, self.channels)


Said: TypeAlias = "SampleFormat | FloatArray | list[str]"
"""What a decoder says: the form of samples, samples, and at the end warnings."""


def said(kind: bytes, payload: bytes, form: SampleFormat | None, name: str) -> Said:
    """Return what a message of a decoder says, which a stranger may have taken over.

    Raise an AudioError for bad audio or a message out of turn, an OverloadedError for BUSY.
    """
    try:
        if kind == FORM and form is None:
            found = msgspec.json.decode(payload, type=SampleFormat)
            check_rate(found.rate, f"the sample rate of {name}")
            return found
        if kind == SAMPLES and form is not None and payload:
            return form.samples(payload)
        if kind == DONE and form is not None:
            return msgspec.json.decode(payload, type=list[str])
    except AudioError:
        raise
    except (ValueError, msgspec.MsgspecError):
        kind = b""
    raise error_of(kind, payload, name)


def error_of(kind: bytes, payload: bytes, name: str) -> Exception:
    """Return the error of a message of a decoder, or of none at all."""
    if kind == ERROR:
        return AudioError(payload.decode(errors="replace"))
    if kind == BUSY:
        return OverloadedError("this machine has no process to decode audio with; try again later")
    return AudioError(f"{name} cannot be decoded: its decoder crashed, or took too long")


class AudioFile:
    """A file, or a container that comes over a pipe; its form is known before its samples."""

    def __init__(
        self, source: bytes | IO[bytes] | Bytes, name: str = "AUDIO", container: str | None = None
    ) -> None:
        """Decode up to the first samples.

        A file is opened again for its samples: until then it may wait for long, without a decoder.
        Raise an AudioError that says what was found if there is no audio that can be decoded, or an
        OverloadedError if no process can be started.

        Args:
            source: The file, or a function that returns the next bytes of a pipe.
            name: Name of the audio in errors.
            container: FFmpeg's name of the format of a pipe.
        """
        self._at, self._size = _readable(source)
        self._name, self._container = name, container
        self.warnings: list[str] = []
        """Problems of the file, one sentence each; complete when all blocks are read."""
        messages = self._messages(only_form=self._size is not None)
        form = next(messages)
        assert isinstance(form, SampleFormat)
        self._form, self._pipe = form, messages if self._size is None else None
        if self._size is not None:
            next(messages)  # the last one: the decoder is free
        self.sample_rate, self.num_channels, self.length_s = form.rate, form.channels, form.length_s

    def blocks(self, block_frames: int) -> Iterator[FloatArray]:
        """Yield samples, FP32 [block_frames, channels], once; may raise an AudioError."""
        yield from cut_to_blocks(self.pieces(), block_frames)

    def pieces(self) -> Generator[FloatArray, None, None]:
        """Yield the samples, FP32 [samples, channels], as they are decoded; call this once."""
        messages = self._pipe or self._messages()
        with closing(messages):
            for found in messages:
                if isinstance(found, np.ndarray):
                    yield found
                elif isinstance(found, list):
                    self.warnings += found

    def _messages(self, *, only_form: bool = False) -> "Generator[Said, None, None]":
        decoder = DecoderProcess(self._name, self._size, self._container, only_form=only_form)
        form: SampleFormat | None = None
        with closing(decoder):
            while True:
                try:
                    kind, payload = decoder.receive()
                    if kind == WANTED:
                        decoder.send(BYTES, self._at(*ASK.unpack(payload)))
                        continue
                except (EOFError, OSError, OverflowError, ValueError, struct.error):
                    kind = payload = b""
                found = said(kind, payload, form, self._name)
                if isinstance(found, list):
                    decoder.finish()
                    yield found
                    return
                form = found if isinstance(found, SampleFormat) else form
                yield found


def _readable(source: bytes | IO[bytes] | Bytes) -> tuple[Bytes, int | None]:
    """Return how to read a source, and its size; None for a pipe."""
    if callable(source):
        return source, None
    file = io.BytesIO(source) if isinstance(source, bytes) else source
    size = file.seek(0, io.SEEK_END)

    def at(place: int, size: int) -> bytes:
        file.seek(place)
        return file.read(size)

    return at, size


def length_of(file: IO[bytes]) -> float | None:
    """Return the seconds of audio that a file states; None if it states none, or is no audio."""
    try:
        return AudioFile(file).length_s
    except (AudioError, OverloadedError):
        return None
