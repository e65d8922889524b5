"""Start the processes that decode, and keep a few for the next files; see `conch.audio.worker`."""

import atexit
import os
import select
import socket
import struct
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

from conch.audio.messages import JOB, SocketEnd
from conch.wire.errors import OverloadedError

MAX_IDLE = 4
"""Decoders that are kept for the next jobs. While they work, there is one for each open file."""
SILENT_S = 60.0
"""Seconds for which a decoder may say nothing: three times the CPU time that it may take."""
_PROGRAM = "import sys; sys.path[:] = {}; from conch.audio.worker import main; main()"
"""With our own path, as variables and the user's packages are left out."""
_SILENT = struct.pack("ll", int(SILENT_S), 0)
PASSED_ON = ("LD_LIBRARY_PATH", "PATH")
"""Variables of the environment that a decoder gets: it needs no key."""


class _Pool:
    """The process that forks decoders, started when it is first needed, and idle decoders."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._idle: list[SocketEnd] = []

    def take(self) -> int:
        """Return our end of the connection with a decoder that has nothing to do."""
        with self._lock:
            while self._idle:
                end = self._idle.pop().take()
                poll = select.poll()
                poll.register(end, select.POLLIN)
                if not poll.poll(0):
                    return end
                os.close(end)  # nobody is at the other end
            ours, theirs = socket.socketpair()
            with theirs:
                self._fork(theirs.fileno())
        for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            ours.setsockopt(socket.SOL_SOCKET, option, _SILENT)
        return ours.detach()

    def give_back(self, end: int) -> None:
        """Keep a decoder whose job is done, or end it."""
        os.set_blocking(end, True)
        with self._lock:
            self._idle.append(SocketEnd(end))
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
        with theirs:
            self._process = subprocess.Popen(
                [_python(), "-I", "-c", _PROGRAM.format([path for path in sys.path if path])],
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
prepare = _POOL.prepare
atexit.register(_POOL.end)
os.register_at_fork(after_in_child=_POOL.forget)


def _python() -> str:
    # In a server, sys.executable may be the program that the interpreter is part of.
    name = Path(sys.executable or "")
    return str(name if name.name.startswith("python") else Path(sys.prefix, "bin", "python3"))


class DecoderProcess(SocketEnd):
    """The connection with a decoder at work on one job; see `conch.audio.worker.DecodingJob`."""

    def __init__(
        self, name: str, size: int | None, container: str | None, *, only_form: bool = False
    ) -> None:
        """Give it the job; raise an OverloadedError if no decoder can be started."""
        try:
            super().__init__(_POOL.take())
        except OSError as error:
            raise OverloadedError(f"no decoder of audio can be started: {error}") from None
        job = {"name": name, "size": size, "container": container, "only_form": only_form}
        with suppress(OSError):  # `receive` finds out
            self.send_json(JOB, job)

    def fileno(self) -> int:
        """Return the descriptor, for an event loop to use in place of `receive`."""
        return self._descriptor

    def finish(self) -> None:
        """Let the decoder, which has said its last word, do other jobs."""
        if (end := self.take()) >= 0:
            _POOL.give_back(end)
