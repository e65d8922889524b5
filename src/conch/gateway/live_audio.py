"""The audio of the frames of a live session: raw samples, G.711, or a container cut anywhere."""

import asyncio
import io
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import numpy as np
import soundfile
import soxr
from numpy.typing import NDArray

from conch.audio.intake import SILENT_S, SampleFormat, decoder_at_work, give_back, said
from conch.audio.limits import peak
from conch.audio.messages import ASK, BYTES, HEAD, WANTED, code_and_size
from conch.audio.sniffing import NUM_NAMED_BYTES, container_of, named_container_of, num_first_bytes
from conch.client.aio import timeout
from conch.wire.errors import AudioError, ConchError

Samples = NDArray[Any]
"""Mono int16, or float32 in [-1, 1], [N]."""

WAV_FORMS = {"pcm16": (1, 16), "float32": (3, 32), "mulaw": (7, 8), "alaw": (6, 8)}
"""Format tag of WAV and bits of a sample, by encoding."""
RAW = (*WAV_FORMS,)
"""Encodings of raw samples: 16 bits and 32 bits with the lowest byte first, and G.711."""
ENCODINGS = ("auto", *RAW, "container")

AUDIO_NAME = "the audio"
"""Name of the audio in errors."""


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


def check_samples(data: bytes, encoding: str) -> None:
    """Raise an AudioError if samples begin as a container, which would sound as noise."""
    if len(data) >= NUM_NAMED_BYTES and (container := named_container_of(data)):
        raise AudioError(
            f"the audio begins like a container ({container}), not like samples of the encoding "
            f"{encoding!r}"
        )


class RawDecoder:
    """Makes samples of bytes of one raw encoding; a sample may be cut anywhere."""

    def __init__(self, encoding: str) -> None:
        self._encoding = encoding
        self._rest = b""
        """Bytes of an incomplete sample."""
        self._has_begun = False

    def samples(self, data: bytes) -> Samples:
        """Return the next samples: float32 of `float32`, int16 of the others.

        Leave the bytes out and raise an AudioError if a sample is not finite or far outside [-1,
        1], or if a container begins.
        """
        if not self._has_begun and data:
            check_samples(data, self._encoding)
            self._has_begun = True
        if (table := _TABLES.get(self._encoding)) is not None:
            return table[np.frombuffer(data, np.uint8)]
        dtype = np.dtype("<f4" if self._encoding == "float32" else "<i2")
        data = self._rest + data
        whole = len(data) // dtype.itemsize * dtype.itemsize
        self._rest = data[whole:]
        samples = np.frombuffer(data, dtype, whole // dtype.itemsize)
        if dtype.kind == "f" and len(samples):
            peak(samples, "the frame")
        return samples.astype(dtype.newbyteorder("="), copy=False)


class ContainerDecoder:
    """Decodes the container of one session."""

    def __init__(self, container: str, sample_rate: int) -> None:
        """Start the decoder; raise an OverloadedError if no process for it can be started."""
        self._decoder = decoder_at_work(AUDIO_NAME, None, container)
        self._loop = asyncio.get_running_loop()
        self._decoder.socket.setblocking(False)
        self._bytes, self._is_complete = bytearray(), False
        """Bytes that are not decoded, and whether no others come."""
        self._wanted = 0
        """Bytes for which the decoder waits."""
        self._has_ended = False
        self._sample_rate = sample_rate
        self._form: SampleFormat | None = None
        self._resampler: soxr.ResampleStream | None = None

    async def decoded(self, data: bytes, *, ends: bool = False) -> AsyncIterator[Samples]:
        """Yield the samples that can be decoded with further bytes, FP32 [samples], mono.

        Raise an AudioError if they cannot be decoded, or more than tags follow the container.
        """
        if self._has_ended:
            return
        self._bytes += data
        self._is_complete |= ends
        async for samples in self._samples():
            yield samples if self._resampler is None else self._resampler.resample_chunk(samples)
        if self._has_ended and self._resampler is not None:
            yield self._resampler.resample_chunk(np.zeros(0, np.float32), last=True)

    def stop(self) -> None:
        """End the decoder, whatever it does."""
        self._has_ended = True
        self._decoder.close()

    async def _samples(self) -> AsyncIterator[Samples]:
        """Yield samples at the rate of the container, until the decoder needs further bytes."""
        while not self._has_ended:
            if self._wanted and not await self._gives():
                return
            code, payload = await self._received()
            if code == WANTED and len(payload) == ASK.size:
                self._wanted = ASK.unpack(payload)[1]
                continue
            try:
                message = said(code, payload, self._form, AUDIO_NAME)
            except ConchError:
                self.stop()
                raise
            if isinstance(message, SampleFormat):
                self._form = message
                if message.rate != self._sample_rate:
                    rates = message.rate, self._sample_rate
                    self._resampler = soxr.ResampleStream(*rates, 1, dtype="float32")
            elif isinstance(message, np.ndarray):
                yield message.mean(axis=1)
            else:
                self._has_ended = True
                give_back(self._decoder)

    async def _gives(self) -> bool:
        """Give the decoder the bytes that it wants; return whether there are any, or never will."""
        if not self._bytes and not self._is_complete:
            return False
        data = bytes(self._bytes[: self._wanted])
        del self._bytes[: self._wanted]
        self._wanted = 0
        with suppress(OSError, asyncio.TimeoutError):  # `_received` finds out
            async with timeout(SILENT_S):
                message = HEAD.pack(BYTES, len(data)) + data
                await self._loop.sock_sendall(self._decoder.socket, message)
        return True

    async def _received(self) -> tuple[bytes, bytes]:
        """Return the next message; one without a code if the decoder is gone, or hangs."""
        try:
            async with timeout(SILENT_S):
                code, size = code_and_size(await self._exactly(HEAD.size))
                return code, await self._exactly(size)
        except (EOFError, OSError, asyncio.TimeoutError):
            self.stop()
            return b"", b""

    async def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            more = await self._loop.sock_recv(self._decoder.socket, size - len(data))
            if not more:
                raise EOFError
            data += more
        return bytes(data)


class LiveFrames:
    """The audio of the binary frames of one session."""

    def __init__(self, encoding: str, sample_rate: int) -> None:
        """Take one of ENCODINGS, and Hz of raw samples and of those decoded from a container."""
        self._encoding, self._sample_rate = encoding, sample_rate
        self._raw = RawDecoder(encoding) if encoding in RAW else None
        self._container: ContainerDecoder | None = None
        self._first = b""
        """First bytes, until they show the format."""

    async def __aenter__(self) -> "LiveFrames":
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        if self._container is not None:
            self._container.stop()

    async def decoded(self, data: bytes, *, ends: bool = False) -> AsyncIterator[Samples]:
        """Yield the samples that a frame completes; take all of them before the next frame.

        Raise an AudioError if it cannot be decoded. Of raw samples, the next frame may be right.
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
        try:
            container = container_of(first)
        except AudioError as error:
            raise AudioError(f"the audio is {error}") from None
        if container is not None:
            self._container = ContainerDecoder(container, self._sample_rate)
        elif self._encoding == "auto":
            self._raw = RawDecoder("pcm16")
        else:
            raise AudioError(
                f"the audio begins with {first[:8].hex(' ')}, which is no container that is known: "
                "webm, Ogg, WAV, FLAC, mp3, fragmented MP4; name the encoding of raw samples"
            )
