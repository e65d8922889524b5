"""Read what strangers send: every file and every live container, at every door.

FFmpeg decodes it in other processes, each of which has one source at a time: see
`conch.audio.worker`. A few are kept for the next files.
"""

import atexit
import io
import os
import select
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing, suppress
from pathlib import Path
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
    JOB,
    SAMPLES,
    WANTED,
    SocketEnd,
)
from conch.component import FloatArray
from conch.wire.errors import AudioError, OverloadedError

MAX_IDLE = 4
"""Decoders that are kept for the next jobs. While they work, there is one for each open file."""
SILENT_S = 60.0
"""Seconds for which a decoder may say nothing: three times the CPU time that it may take."""
_PROGRAM = "import sys; sys.path[:] = {}; from conch.audio.worker import main; main()"
"""The worker gets our path, because it sees no variables and no packages of the user."""
PASSED_ON = ("LD_LIBRARY_PATH", "PATH")
"""Variables of the environment that a decoder gets: it needs no key."""
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
Said: TypeAlias = "SampleFormat | FloatArray | list[str]"
"""A message of a decoder: the format of samples, samples, or at the end warnings."""


class _Pool:
    """The process that forks decoders, started when it is first needed, and idle decoders."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._idle: list[SocketEnd] = []

    def take(self) -> SocketEnd:
        """Return our end of the connection with a decoder that has nothing to do."""
        with self._lock:
            while self._idle:
                idle = self._idle.pop()
                poll = select.poll()
                poll.register(idle.socket, select.POLLIN)
                if not poll.poll(0):  # else nobody is at the other end
                    return idle
            ours, theirs = socket.socketpair()
            with theirs:
                self._fork(theirs.fileno())
        return SocketEnd(ours)

    def give_back(self, decoder: SocketEnd) -> None:
        """Keep a decoder that has said its last word for other jobs; end more than MAX_IDLE."""
        with self._lock:
            self._idle.append(decoder.taken())
            del self._idle[:-MAX_IDLE]

    def prepare(self) -> None:
        """Start the process that forks decoders, unless it runs."""
        with self._lock:
            self._ensure()

    def _ensure(self) -> None:
        if self._process is None or self._process.poll() is not None:
            self._start()

    def _fork(self, descriptor: int) -> None:
        self._ensure()
        assert self._control is not None
        try:
            socket.send_fds(self._control, [b"d"], [descriptor])
        except OSError:  # it has died just now
            self._start()
            socket.send_fds(self._control, [b"d"], [descriptor])

    def _start(self) -> None:
        self._end_process()
        self._control, theirs = socket.socketpair()
        # In a server, sys.executable may be the program that the interpreter is part of.
        python = Path(sys.executable or "")
        if not python.name.startswith("python"):
            python = Path(sys.prefix, "bin", "python3")
        with theirs:
            self._process = subprocess.Popen(
                [python, "-I", "-c", _PROGRAM.format([path for path in sys.path if path])],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                env={name: os.environ[name] for name in PASSED_ON if name in os.environ},
            )

    def end(self) -> None:
        """End all decoders; one at work ends when nobody reads from it."""
        self._idle.clear()
        self._end_process()

    def _end_process(self) -> None:
        if self._control is not None:
            self._control.close()
        if self._process is not None:
            self._process.wait()
        self._process = self._control = None

    def forget(self) -> None:
        """Leave the decoders to the process that this one was forked from."""
        if self._control is not None:
            self._control.close()
        self._lock, self._process, self._control = threading.Lock(), None, None
        self._idle.clear()


_POOL = _Pool()
prepare, give_back = _POOL.prepare, _POOL.give_back
atexit.register(_POOL.end)
os.register_at_fork(after_in_child=_POOL.forget)


def decoder_at_work(
    name: str, size: int | None, container: str | None, *, only_form: bool = False
) -> SocketEnd:
    """Return the connection with a decoder that has a job, or raise an OverloadedError.

    `name` is that of the audio in errors. `size` is None for a pipe, and `container` to detect the
    format. With `only_form` the decoder ends once it has sent the form of the samples.
    """
    try:
        decoder = _POOL.take()
    except OSError as error:
        raise OverloadedError(f"no decoder of audio can be started: {error}") from None
    decoder.socket.settimeout(SILENT_S)
    job = {"name": name, "size": size, "container": container, "only_form": only_form}
    with suppress(OSError):  # `receive` finds out
        decoder.send_json(JOB, job)
    return decoder


class SampleFormat(msgspec.Struct, frozen=True):
    """The message of a decoder before its first samples."""

    rate: int
    """Hz."""
    channels: Annotated[int, msgspec.Meta(ge=1, le=1024)]
    sample_type: Literal["u8", "s16", "s32", "flt", "dbl"]
    length_s: float | None
    """Length in seconds by the header, None if it has none."""

    def samples(self, data: bytes) -> FloatArray:
        """Return samples, FP32 [samples, channels] in [-1, 1]."""
        dtype, scale = _TYPES[self.sample_type]
        floats: FloatArray = np.frombuffer(data, dtype).astype(np.float32)
        if self.sample_type == "u8":
            floats -= scale
        if scale != 1:
            floats *= np.float32(1 / scale)
        return floats.reshape(-1, self.channels)


def said(code: bytes, payload: bytes, form: SampleFormat | None, name: str) -> Said:
    """Return what a message of a decoder says, which a stranger may have taken over.

    Raise an AudioError for bad audio or a message out of turn, an OverloadedError for BUSY.
    """
    try:
        if code == FORM and form is None:
            sample_format = msgspec.json.decode(payload, type=SampleFormat)
            check_rate(sample_format.rate, f"the sample rate of {name}")
            return sample_format
        if code == SAMPLES and form is not None and payload:
            return form.samples(payload)
        if code == DONE and form is not None:
            return msgspec.json.decode(payload, type=list[str])
    except AudioError:
        raise
    except (ValueError, msgspec.MsgspecError):
        code = b""
    raise error_of(code, payload, name)


def error_of(code: bytes, payload: bytes, name: str) -> Exception:
    """Return the error of a message of a decoder, or of none at all."""
    if code == ERROR:
        return AudioError(payload.decode(errors="replace"))
    if code == BUSY:
        return OverloadedError("this machine has no process to decode audio with; try again later")
    return AudioError(f"{name} cannot be decoded: its decoder crashed, or took too long")


class AudioFile:
    """A file, or a container that comes over a pipe; its form is known before its samples."""

    def __init__(
        self, source: bytes | IO[bytes] | Bytes, name: str = "AUDIO", container: str | None = None
    ) -> None:
        """Decode up to the first samples.

        A file is opened again for its samples: until then it may wait for long, without a decoder.
        For a pipe, `source` returns its next bytes, and `container` is FFmpeg's name of its format.
        Errors call the audio `name`. Raise an AudioError that says what was found if there is no
        audio that can be decoded, or an OverloadedError if no process can be started.
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
            for item in messages:
                if isinstance(item, np.ndarray):
                    yield item
                elif isinstance(item, list):
                    self.warnings += item

    def _messages(self, *, only_form: bool = False) -> "Generator[Said, None, None]":
        decoder = decoder_at_work(self._name, self._size, self._container, only_form=only_form)
        form: SampleFormat | None = None
        with closing(decoder):
            while True:
                try:
                    code, payload = decoder.receive()
                    if code == WANTED:
                        decoder.send(BYTES, self._at(*ASK.unpack(payload)))
                        continue
                except (EOFError, OSError, OverflowError, ValueError, struct.error):
                    code = payload = b""
                item = said(code, payload, form, self._name)
                if isinstance(item, list):
                    give_back(decoder)
                    yield item
                    return
                form = item if isinstance(item, SampleFormat) else form
                yield item


def _readable(source: bytes | IO[bytes] | Bytes) -> tuple[Bytes, int | None]:
    """Return how to read a source, and its size; None for a pipe."""
    if callable(source):
        return source, None
    file = io.BytesIO(source) if isinstance(source, bytes) else source
    size = file.seek(0, io.SEEK_END)

    def at(offset: int, size: int) -> bytes:
        file.seek(offset)
        return file.read(size)

    return at, size


def length_of(file: IO[bytes]) -> float | None:
    """Return the seconds of audio that a file states; None if it states none, or is no audio."""
    try:
        return AudioFile(file).length_s
    except (AudioError, OverloadedError):
        return None
