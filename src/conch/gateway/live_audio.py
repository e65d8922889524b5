"""The audio of the frames of a live session: raw samples, G.711, or a container cut anywhere."""

import asyncio
import io
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
        self._changed = asyncio.Event()
        """Set whenever the thread has samples, or waits for bytes, or has ended."""
        self._lock = threading.Condition()
        """Held for each of the fields below."""
        self._bytes = bytearray()
        self._samples: list[Samples] = []
        self._num_samples = 0
        self._num_unheard = 0
        """Bytes since the latest samples; 0 before the first ones."""
        self._has_samples = False
        self._is_hungry = False
        """Whether the thread waits for bytes."""
        self._is_complete = False
        """Whether no more bytes come."""
        self._is_left = False
        """Whether no more samples are wanted."""
        self._has_ended = False
        self._error: AudioError | None = None
        self._thread = threading.Thread(target=self._decode, name="conch-container", daemon=True)
        self._thread.start()

    async def decoded(self, data: bytes, *, ends: bool = False) -> AsyncIterator[Samples]:
        """Yield the samples that can be decoded with further bytes, float32.

        Raises:
            AudioError: FFmpeg cannot decode it, or more than tags follow its end.
        """
        with self._lock:
            if self._has_ended:
                self._num_unheard += len(data)
            else:
                self._bytes += data
            self._is_complete |= ends
            self._is_hungry &= not (data or ends)
            self._lock.notify()
        while True:
            with self._lock:
                samples, self._samples, self._num_samples = self._samples, [], 0
                is_done = self._is_hungry or self._has_ended
                self._lock.notify()
            if samples:
                yield np.concatenate(samples)
            if is_done:
                break
            await self._changed.wait()
            self._changed.clear()
        if self._error is not None:
            raise self._error
        # FFmpeg reads further than the samples of a WAV, and drops the rest.
        has_ended = self._has_ended or self._container == "wav"
        if has_ended and self._num_unheard > MAX_TRAILER_BYTES:
            raise AudioError("the container has ended; open another session for further audio")

    async def stop(self) -> None:
        """End the thread."""
        with self._lock:
            self._is_left = True
            self._lock.notify()
        while not self._has_ended:
            await self._changed.wait()
            self._changed.clear()
        self._thread.join()

    def read(self, size: int) -> bytes:
        """Return bytes for FFmpeg as soon as there are any, none at the end."""
        with self._lock:
            while not self._bytes and not self._is_complete and not self._is_left:
                self._is_hungry = True
                self._tell()
                self._lock.wait()
            if self._is_left:
                return b""
            data = bytes(self._bytes[:size])
            del self._bytes[:size]
            self._num_unheard += len(data) * self._has_samples
            return data

    def close(self) -> None:
        """Do nothing: FFmpeg needs it of a pipe."""

    def _decode(self) -> None:
        try:
            decoded = decoded_by_pyav(self, self._container, "the audio", self._sample_rate)
            for piece in decoded.pieces:
                if not self._keep(piece.astype(np.float32, copy=False)):
                    break
        except AudioError as error:
            self._error = error
        except Exception as error:  # FFmpeg has more errors than PyAV names
            # FFmpeg's are of these types; anything else is a defect, for the log alone.
            said = error if isinstance(error, OSError | ValueError) else public_error(error)
            self._error = AudioError(f"the audio cannot be decoded: {said!s:.200}")
        with self._lock:
            self._has_ended = True
            self._num_unheard += len(self._bytes)
            self._bytes.clear()
            self._tell()

    def _keep(self, piece: Samples) -> bool:
        """Keep samples until they are taken; return whether more are wanted."""
        with self._lock:
            self._samples.append(piece)
            self._num_samples += len(piece)
            self._has_samples, self._num_unheard = True, 0
            while self._num_samples > MAX_DECODED_S * self._sample_rate and not self._is_left:
                self._tell()
                self._lock.wait()
            return not self._is_left

    def _tell(self) -> None:
        self._loop.call_soon_threadsafe(self._changed.set)


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
        """First bytes, until they show what the audio is."""

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
        """Find out what the audio is by its first bytes."""
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
