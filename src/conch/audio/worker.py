"""The processes that decode what strangers send, one file or stream at a time.

`python -m conch.audio.worker` imports FFmpeg once, before it sees a byte of anybody, and forks
itself for each decoder: that takes milliseconds and few pages. A decoder has limits of memory and
CPU time, and no descriptor but its connection. If it crashes or hangs, one request fails.
"""

import gc
import io
import json
import os
import resource
import signal
import socket
import wave
from contextlib import suppress
from typing import Any

# PyAV imports it when a file has subtitles, and a decoder opens no file.
import av.subtitles.stream  # noqa: F401

from conch.audio.decoder import PIPE_BUFFER, Decoding
from conch.audio.messages import ASK, BUSY, DONE, ERROR, FORM, HEAD, SAMPLES, WANTED, SocketEnd
from conch.wire.errors import AudioError

MAX_MEMORY = 384 * 2**20
"""Bytes of address space that a decoder may take, beyond what it has when it starts."""
MAX_CPU_S = 20
"""Seconds of CPU time that a decoder may take for its next samples."""
SAMPLE_BYTES = 128 * 1024
"""Bytes of samples that are sent together."""
MAX_ERROR = 300
"""Most characters of an error that is not of Conch."""
KEPT_BYTES = 512 * 1024
"""Latest bytes of a pipe that are kept: a further container may begin among them."""


class _EnoughError(Exception):
    """All that was asked for is known."""


class _Source:
    def __init__(self, connection: SocketEnd, size: int | None, flush: Any) -> None:
        self._connection, self.size, self._flush = connection, size, flush
        self._kept, self._first = bytearray(), 0
        """Latest bytes of a pipe, and the offset of the first of them."""

    def at(self, offset: int, size: int) -> bytes:
        if self.size is not None:
            return self._received(offset, min(size, max(0, self.size - offset)))
        while offset >= (end := self._first + len(self._kept)):
            more = self._received(end, max(size, PIPE_BUFFER))
            if not more:
                return b""
            self._kept += more
        drop = len(self._kept) - max(KEPT_BYTES, end - offset)
        if drop > KEPT_BYTES:
            del self._kept[:drop]
            self._first += drop
        start = offset - self._first
        return bytes(self._kept[start : start + size]) if start >= 0 else b""

    def _received(self, offset: int, size: int) -> bytes:
        if not size:
            return b""
        try:
            self._flush()  # nobody knows when more comes: what was decoded must not wait for it
            self._connection.send(WANTED, ASK.pack(offset, size))
            return self._connection.receive()[1]
        except (EOFError, OSError):
            os._exit(1)  # nobody listens, and FFmpeg would try again and again


class _SampleSender:
    def __init__(self, connection: SocketEnd, *, only_form: bool) -> None:
        self._connection, self._only_form = connection, only_form
        self._held = bytearray()
        self._num_bytes = 0
        """Bytes that were sent since more CPU time was granted."""

    def begin(self, rate: int, channels: int, sample_type: str, length_s: float | None) -> None:
        form = {
            "rate": rate,
            "channels": channels,
            "sample_type": sample_type,
            "length_s": length_s,
        }
        self._connection.send_json(FORM, form)
        if self._only_form:
            raise _EnoughError

    def write(self, samples: bytes | memoryview) -> None:
        self._held += samples
        if len(self._held) >= SAMPLE_BYTES:
            self.flush()

    def flush(self) -> None:
        if self._held:
            self._connection.send(SAMPLES, self._held)
            self._num_bytes += len(self._held)
            self._held = bytearray()
            if self._num_bytes >= SAMPLE_BYTES:
                self._num_bytes = 0
                limit_cpu()


def limit_cpu() -> None:
    """Let this process take MAX_CPU_S from now on."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    most = int(used.ru_utime + used.ru_stime) + MAX_CPU_S
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(resource.RLIMIT_CPU, (most, hard))


def _limit() -> None:
    """Give up what decoding does not need: files, core dumps, and most memory."""
    limits = dict.fromkeys((resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE, resource.RLIMIT_CORE), 0)
    with suppress(FileNotFoundError), open("/proc/self/statm") as file:  # only Linux has it
        taken = int(file.read().split()[0]) * resource.getpagesize()
        limits[resource.RLIMIT_AS] = taken + MAX_MEMORY
    for limit, most in limits.items():
        resource.setrlimit(limit, (most, most))
    limit_cpu()


def _work(connection: SocketEnd) -> None:
    with suppress(EOFError, OSError):
        while True:
            _, payload = connection.receive()
            limit_cpu()
            _decode(connection, **json.loads(payload))


def _decode(
    connection: SocketEnd, *, name: str, size: int | None, container: str | None, only_form: bool
) -> None:
    sink = _SampleSender(connection, only_form=only_form)
    source = _Source(connection, size, sink.flush)
    decoding = Decoding(source, sink, name, container=container, fills_gaps=size is not None)
    try:
        with suppress(_EnoughError):
            decoding.run()
    except AudioError as error:
        said = str(error)
    except Exception as error:  # FFmpeg has more errors than PyAV names
        said = f"{name} cannot be decoded: {type(error).__name__} {error}"[:MAX_ERROR]
    else:
        sink.flush()
        connection.send_json(DONE, decoding.warnings)
        return
    sink.flush()
    connection.send(ERROR, said.encode())


class _Sample:
    def __init__(self, data: bytes, *, is_file: bool) -> None:
        self._data, self.size = data, len(data) if is_file else None

    def at(self, offset: int, size: int) -> bytes:
        return self._data[offset : offset + size]

    def begin(self, rate: int, channels: int, sample_type: str, length_s: float | None) -> None:
        pass

    def write(self, samples: bytes | memoryview) -> None:
        pass


def _warm_up() -> None:
    """Decode a little, so that Python imports now what a decoder cannot import later."""
    made = io.BytesIO()
    with wave.open(made, "wb") as file:
        file.setparams((2, 2, 16_000, 0, "NONE", ""))
        file.writeframes(bytes(2048))
    for data in (made.getvalue(), b"This is text. " * 9, bytes(range(256))):
        for is_file in (True, False):
            sample = _Sample(data, is_file=is_file)
            with suppress(AudioError):
                Decoding(sample, sample, "", container="wav", fills_gaps=is_file).run()


def main() -> None:
    """Start a decoder for each descriptor that comes over standard input, until it is closed."""
    # The process that asks decides when to end: it may have files to finish.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no decoder is waited for
    control = socket.socket(fileno=os.dup(0))
    _warm_up()
    gc.collect()
    gc.freeze()  # a collection would copy the pages that all share
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, 1, 1)
        if not message:
            return
        for descriptor in descriptors:
            _start(descriptor)


def _start(descriptor: int) -> None:
    try:
        is_decoder = os.fork() == 0
    except OSError:
        with suppress(OSError):
            os.write(descriptor, HEAD.pack(BUSY, 0))
        is_decoder = False
    if is_decoder:
        code = 1
        try:
            os.closerange(0, descriptor)
            os.closerange(descriptor + 1, descriptor + 64)
            connection = SocketEnd(socket.socket(fileno=descriptor))
            _limit()
            _work(connection)
            code = 0
        finally:
            os._exit(code)
    os.close(descriptor)


if __name__ == "__main__":
    main()
