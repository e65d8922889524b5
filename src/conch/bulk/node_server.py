"""The Conch server of a Ray node: a process of `conch serve` that is started and watched.

The environment of this package is the client's. The server's may be another one, with another
numpy, so it is known by its command alone.
"""

import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import conch
from conch.wire.errors import BulkError

READY = re.compile(r"^  gRPC +(grpc://\S+)", re.MULTILINE)
"""The line of `conch serve` that tells where it answers."""
START_S = 300.0
"""Seconds for the server to start."""
GRACE_S = 10.0
"""Seconds for the server to end."""
LOOK_S = 0.1
LOG_CHARS = 2000


def serve_command(given: str | None) -> tuple[str, ...]:
    """Return the command `conch` of the server's environment.

    Args:
        given: Path that the user gave; None looks beside the interpreter and on PATH.

    Raises:
        BulkError: there is none.
    """
    if given is not None:
        found = shutil.which(given)
        if found is None:
            raise BulkError(f"--conch {given}: no such program")
        return (found,)
    beside = Path(sys.executable).parent / "conch"
    found = str(beside) if beside.is_file() else shutil.which("conch")
    if found is None:
        raise BulkError(
            f"no program conch on {socket.gethostname()}, beside {sys.executable} or on PATH: give "
            "its path with --conch, or servers that run with --url"
        )
    return (found,)


class ServerProcess:
    """One `conch serve` on ports that are free, which ends with this process in any case."""

    def __init__(self, command: Sequence[str], models: Sequence[str]) -> None:
        """Start it, without waiting.

        Args:
            command: The program `conch`, and more flags of its `serve`.
            models: What it loads.

        Raises:
            BulkError: there is no such program here.
        """
        self._folder = Path(tempfile.mkdtemp(prefix="conch-bulk-"))
        self._log = self._folder / "log"
        serve = [
            *(command[0], "serve", "--no-gateway", "--no-access-log", "--models", ",".join(models)),
            *("--http-port", "0", "--grpc-port", "0", "--metrics-port", "0", *command[1:]),
        ]
        if shutil.which(serve[0]) is None:
            raise BulkError(f"no program {serve[0]} on {socket.gethostname()}")
        serve[0] = str(shutil.which(serve[0]))
        # It ends the server when this end of the socket closes, however this process ends.
        guard = Path(conch.__file__).parent / "launcher" / "guard.py"
        self._lifeline, theirs = socket.socketpair()
        arguments = [str(theirs.fileno()), "", str(self._folder), str(GRACE_S)]
        with theirs, self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(guard), *arguments, *serve],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
                env=_environment(),
            )

    @property
    def is_alive(self) -> bool:
        """Whether the process runs."""
        return self._process.poll() is None

    def url(self, timeout_s: float) -> str:
        """Wait until the server is ready, and return its address.

        Raises:
            BulkError: it ends before, or takes too long; the message has the end of its log.
        """
        deadline = time.monotonic() + timeout_s
        ended = threading.Event()
        while not (found := READY.search(self._said())):
            if not self.is_alive:
                raise BulkError(f"the server of {socket.gethostname()} did not start: {self._end}")
            if time.monotonic() > deadline:
                raise BulkError(
                    f"the server of {socket.gethostname()} was not ready after {timeout_s:g} s: "
                    f"{self._end}"
                )
            ended.wait(LOOK_S)
        return found[1]

    def stop(self) -> None:
        """End the server and remove its files."""
        if self.is_alive:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(GRACE_S)
        if self.is_alive:
            self._process.kill()
            self._process.wait()
        # The end of the socket, without a byte: the guard removes what is left.
        self._lifeline.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _said(self) -> str:
        try:
            return self._log.read_text(errors="replace")
        except FileNotFoundError:
            return ""

    @property
    def _end(self) -> str:
        return self._said().strip()[-LOG_CHARS:] or "it said nothing"


def _environment() -> dict[str, str]:
    """Return the environment of the server: without the Python paths of a Ray worker."""
    hidden = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "LD_PRELOAD")
    return {name: value for name, value in os.environ.items() if name not in hidden}


class NodeServer:
    """The actor of a Ray node: its server, started again when it has died."""

    def __init__(self, command: Sequence[str], models: Sequence[str]) -> None:
        """Start the server.

        Args:
            command: The program `conch`, and more flags of its `serve`.
            models: What the server loads.
        """
        self._command, self._models = command, models
        self._process = ServerProcess(command, models)

    def url(self) -> str:
        """Return the address of the server as soon as it is ready.

        Raises:
            BulkError: it does not start.
        """
        if not self._process.is_alive:
            self._process.stop()
            self._process = ServerProcess(self._command, self._models)
        return self._process.url(START_S)

    def is_running(self) -> bool:
        """Return whether the server runs; calls come one after the other, as after `stop`."""
        return self._process.is_alive

    def stop(self) -> None:
        """End the server."""
        self._process.stop()
