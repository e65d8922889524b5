"""The audio of the frames of a live session: raw samples, G.711, or a container cut anywhere."""

import asyncio
import io
import queue
import threading
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import soundfile
from numpy.typing import NDArray

from conch.audio.limits import peak
from conch.audio.pieces import decoded_by_pyav
from conch.audio.sniffing import container_of, num_first_bytes
from conch.wire.errors import AudioError, public_error

Samples = NDArray[Any]
"""Mono int16, or float32 in [-1, 1], [N]."""

RAW = ("pcm16", "float32", "mulaw", "alaw")
"""Encodings of raw samples: 16 bits and 32 bits with the lowest byte first, and G.711."""
ENCODINGS = ("auto", *RAW, "container")

MAX_DECODED_S = 5.0
"""Seconds of decoded audio after which a decoder waits for them to be taken."""
MAX_TRAILER_BYTES = 2**20
"""Bytes that may follow the audio of a container: tags, and the pictures in them."""


def default_rate(encoding: str) -> int:
    """Return the sample rate of an encoding if none is given, in Hz."""
    return 8_000 if encoding in ("mulaw", "alaw") else 16_000


def _table(subtype: str) -> Samples:
    """Return the sample of each byte of G.711, int16 [256]."""
    codes = io.BytesIO(bytes(range(256)))
    form: dict[str, Any] = {"format": "RAW", "subtype": subtype, "channels": 1, "samplerate": 8000}
    samples: Samples = soundfile.read(codes, dtype="int16", **form)[0]
    return samples


_TABLES = {"mulaw": _table("ULAW"), "alaw": _table("ALAW")}


class RawDecoder:
    """Makes samples of bytes of one raw encoding; a sample may be cut anywhere."""

    def __init__(self, encoding: str) -> None:
        self._encoding = encoding
        self._rest = b""
        """Bytes of an incomplete sample."""

    def samples(self, data: bytes) -> Samples:
        """Return the next samples: float32 of `float32`, int16 of the others.

        Raises:
            AudioError: a sample is not finite, or far outside [-1, 1]. The bytes are left out.
        """
        if (table := _TABLES.get(self._encoding)) is not None:
            return table[np.frombuffer(data, np.uint8)]
        dtype = np.dtype("<f4" if self._encoding == "float32" else "<i2")
        data = self._rest + data
        whole = len(data) // dtype.itemsize * dtype.itemsize
        self._rest = data[whole:]
        found = np.frombuffer(data, dtype, whole // dtype.itemsize)
        if dtype.kind == "f" and len(found):
            peak(found, "the frame")
        return found.astype(dtype.newbyteorder("="), copy=False)


class ContainerDecoder:
    """Decodes a container as its bytes come, in a thread of its own.

    The thread waits whenever it has no bytes, or too many samples that are not taken yet. FFmpeg
    reads from it as from a pipe, by `read` and `close`.
    """

    def __init__(self, container: str, sample_rate: int) -> None:
        """Start the thread; `container` is the name of the format in FFmpeg."""
        self._container, self._sample_rate = container, sample_rate
        self._loop = asyncio.get_running_loop()
        self._frames: queue.SimpleQueue[tuple[bytes, bool]] = queue.SimpleQueue()
        """Bytes for the thread, and whether they are the last."""
        self._decoded: asyncio.Queue[Samples | None] = asyncio.Queue()
        """Samples of the thread, and None whenever it waits for bytes or has ended."""
        self._taken = threading.Semaphore(0)
        """Released when samples are taken."""
        self._frame = b""
        """Bytes that FFmpeg has not read."""
        self._pieces: list[Samples] = []
        self._has_read = self._is_complete = self._is_left = self._has_ended = False
        self._num_unheard: int | None = None
        """Bytes since the latest samples; None before the first ones."""
        self._error: AudioError | None = None
        self._thread = threading.Thread(target=self._decode, name="conch-container", daemon=True)
        self._thread.start()

    async def decoded(self, data: bytes, *, ends: bool = False) -> AsyncIterator[Samples]:
        """Yield the samples that can be decoded with further bytes, float32.

        Raises:
            AudioError: FFmpeg cannot decode it, or more than tags follow its end.
        """
        if data or ends:
            self._frames.put((data, ends))
        if (data or ends) and not self._has_ended:
            while (samples := await self._decoded.get()) is not None:
                self._taken.release()
                yield samples
        if self._error is not None:
            raise self._error
        if self._has_ended:
            self._num_unheard = (self._num_unheard or 0) + len(self._rest())
        # FFmpeg reads further than the samples of a WAV, and drops the rest.
        has_ended = self._has_ended or self._container == "wav"
        if has_ended and (self._num_unheard or 0) > MAX_TRAILER_BYTES:
            raise AudioError("the container has ended; open another session for further audio")

    async def stop(self) -> None:
        """End the thread."""
        self._is_left = True
        self._frames.put((b"", True))
        self._taken.release()
        while not self._has_ended:
            await self._decoded.get()
        self._thread.join()

    def read(self, size: int) -> bytes:
        """Return bytes for FFmpeg as soon as there are any, none at the end."""
        if not self._frame and not self._is_complete:
            if self._has_read and self._frames.empty():
                self._flush()
                self._give(None)
            self._has_read = True
            self._frame, self._is_complete = self._frames.get()
        if self._is_left:
            return b""
        data, self._frame = self._frame[:size], self._frame[size:]
        if self._num_unheard is not None:
            self._num_unheard += len(data)
        return data

    def close(self) -> None:
        """Do nothing: FFmpeg needs it of a pipe."""

    def _decode(self) -> None:
        try:
            decoded = decoded_by_pyav(self, self._container, "the audio", self._sample_rate)
            for piece in decoded.pieces:
                self._num_unheard = 0
                self._pieces.append(piece.astype(np.float32, copy=False))
                if sum(map(len, self._pieces)) > MAX_DECODED_S * self._sample_rate:
                    self._flush()
                if self._is_left:
                    break
        except AudioError as error:
            self._error = error
        except Exception as error:  # FFmpeg has more errors than PyAV names
            # FFmpeg's are of these types; anything else is a defect, for the log alone.
            said = error if isinstance(error, OSError | ValueError) else public_error(error)
            self._error = AudioError(f"the audio cannot be decoded: {said!s:.200}")
        self._flush()
        self._has_ended = True
        self._give(None)

    def _rest(self) -> bytes:
        """Take the bytes that were not read before the container ended."""
        rest, self._frame = [self._frame], b""
        while not self._frames.empty():
            rest.append(self._frames.get()[0])
        return b"".join(rest)

    def _flush(self) -> None:
        """Give the samples so far, and wait until they are taken."""
        if self._pieces and not self._is_left:
            samples, self._pieces = np.concatenate(self._pieces), []
            self._give(samples)
            self._taken.acquire()

    def _give(self, item: Samples | None) -> None:
        self._loop.call_soon_threadsafe(self._decoded.put_nowait, item)


class LiveFrames:
    """The audio of the binary frames of one session."""

    def __init__(self, encoding: str, sample_rate: int) -> None:
        """Begin before the first frame.

        Args:
            encoding: One of ENCODINGS.
            sample_rate: Hz of raw samples, and of the samples decoded from a container.
        """
        self._encoding, self._sample_rate = encoding, sample_rate
        self._raw = RawDecoder(encoding) if encoding in RAW else None
        self._container: ContainerDecoder | None = None
        self._first = b""
        """First bytes, until they show the format."""

    async def __aenter__(self) -> "LiveFrames":
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        if self._container is not None:
            await self._container.stop()

    async def decoded(self, data: bytes, *, ends: bool = False) -> AsyncIterator[Samples]:
        """Yield the samples that a frame completes; take all of them before the next frame.

        Raises:
            AudioError: it cannot be decoded. Of raw samples, the next frame may be right.
        """
        if self._raw is None and self._container is None:
            self._first = data = self._first + data
            if len(data) < num_first_bytes(data) and not (ends and data):
                return
            self._first = b""
            self._choose(data)
        if self._raw is not None:
            if data or not ends:
                yield self._raw.samples(data)
        elif self._container is not None:
            async for samples in self._container.decoded(data, ends=ends):
                yield samples

    def _choose(self, first: bytes) -> None:
        """Choose a decoder by the first bytes."""
        try:
            container = container_of(first)
        except AudioError as error:
            raise AudioError(f"the session is {error}") from None
        if container is not None:
            self._container = ContainerDecoder(container, self._sample_rate)
        elif self._encoding == "auto":
            self._raw = RawDecoder("pcm16")
        else:
            raise AudioError(
                f"the audio begins with {first[:8].hex(' ')}, which is no container that is known: "
                "webm, Ogg, WAV, FLAC, mp3, fragmented MP4; name the encoding of raw samples"
            )
