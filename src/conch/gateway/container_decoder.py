"""Decode a container while its bytes come, in another process: see `conch.audio.worker`."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import suppress

import numpy as np
import soxr
from numpy.typing import NDArray

from conch.audio.intake import SILENT_S, DecoderProcess, SampleFormat, said
from conch.audio.messages import ASK, BYTES, HEAD, WANTED, code_and_size
from conch.client.timeouts import timeout
from conch.wire.errors import ConchError

Samples = NDArray[np.float32]
NAME = "the audio"
"""Name of the audio in errors."""


class ContainerDecoder:
    """Decodes the container of one session."""

    def __init__(self, container: str, sample_rate: int) -> None:
        """Start the decoder; raise an OverloadedError if no process for it can be started."""
        self._decoder = DecoderProcess(NAME, None, container)
        # Of its own: an event loop wants a socket, which would be closed with it.
        self._end = socket.socket(fileno=os.dup(self._decoder.fileno()))
        self._loop = asyncio.get_running_loop()
        self._end.setblocking(False)
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
        self._end.close()
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
                item = said(code, payload, self._form, NAME)
            except ConchError:
                self.stop()
                raise
            if isinstance(item, SampleFormat):
                self._form = item
                if item.rate != self._sample_rate:
                    rates = item.rate, self._sample_rate
                    self._resampler = soxr.ResampleStream(*rates, 1, dtype="float32")
            elif isinstance(item, np.ndarray):
                yield item.mean(axis=1)
            else:
                self._has_ended = True
                self._end.close()
                self._decoder.finish()

    async def _gives(self) -> bool:
        """Give the decoder the bytes that it wants; return whether there are any, or never will."""
        if not self._bytes and not self._is_complete:
            return False
        data = bytes(self._bytes[: self._wanted])
        del self._bytes[: self._wanted]
        self._wanted = 0
        with suppress(OSError, asyncio.TimeoutError):  # `_received` finds out
            async with timeout(SILENT_S):
                await self._loop.sock_sendall(self._end, HEAD.pack(BYTES, len(data)) + data)
        return True

    async def _received(self) -> tuple[bytes, bytes]:
        """Return the next message; one without a kind if the decoder is gone, or hangs."""
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
            more = await self._loop.sock_recv(self._end, size - len(data))
            if not more:
                raise EOFError
            data += more
        return bytes(data)
