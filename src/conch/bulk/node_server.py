"""The Conch server of a Ray node: a process of `conch serve` that is started and watched.

This package runs in the client's environment. The server may have another one, with another numpy,
so only its command is known here.
"""

import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import conch
from conch.wire.errors import BulkError

READY = re.compile(r"^  gRPC +(grpc://\S+)", re.MULTILINE)
"""The line of `conch serve` with its address."""
START_S = 300.0
"""Seconds for the server to start."""
GRACE_S = 10.0
"""Seconds for the server to end."""
LOOK_S = 0.1
LOG_CHARS = 2000


def serve_command(given: str | None) -> tuple[str, ...]:
    """Return the command `conch` of the server's environment, or raise a BulkError.

    `given` is the path that the user gave; None looks next to the interpreter and on PATH.
    """
    if given is not None and shutil.which(given) is None:
        raise BulkError(f"--conch {given}: no such program")
    neighbour = Path(sys.executable).parent / "conch"
    found = shutil.which(given or (neighbour if neighbour.is_file() else "conch"))
    if found is None:
        raise BulkError(
            f"no program conch on {socket.gethostname()}, next to {sys.executable} or on PATH: "
            "give its path with --conch, or running servers with --url"
        )
    return (found,)


class NodeServer:
    """The actor of a Ray node: a `conch serve` on free ports, started again when it has died.

    It ends with this process, however that ends.
    """

    def __init__(self, command: Sequence[str], models: Sequence[str]) -> None:
        """Start the server by a `conch` and flags of its `serve`, or raise a BulkError."""
        program = shutil.which(command[0])
        if program is None:
            raise BulkError(f"no program {command[0]} on {socket.gethostname()}")
        self._serve = [
            *(program, "serve", "--no-gateway", "--no-access-log", "--models", ",".join(models)),
            *("--http-port", "0", "--grpc-port", "0", "--metrics-port", "0", *command[1:]),
        ]
        self._start()

    def url(self) -> str:
        """Return the address of the ready server, or raise a BulkError with the log's end."""
        if not self.is_running():
            self.stop()
            self._start()
        deadline = time.monotonic() + START_S
        while not (found := READY.search(self._log_text())):
            problem = "" if self.is_running() else "did not start"
            if time.monotonic() > deadline:
                problem = f"was not ready after {START_S:g} s"
            if problem:
                log = self._log_text().strip()[-LOG_CHARS:] or "its log is empty"
                raise BulkError(f"the server of {socket.gethostname()} {problem}: {log}")
            time.sleep(LOOK_S)
        return found[1]

    def is_running(self) -> bool:
        """Return whether the server runs. The actor handles one call at a time."""
        return self._process.poll() is None

    def stop(self) -> None:
        """End the server and remove its files."""
        if self.is_running():
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(GRACE_S)
        if self.is_running():
            self._process.kill()
            self._process.wait()
        # The end of the socket, without a byte: the guard removes what is left.
        self._lifeline.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _start(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="conch-bulk-"))
        # The guard ends the server when this end of the socket closes.
        guard = Path(conch.__file__).parent / "launcher" / "guard.py"
        self._lifeline, theirs = socket.socketpair()
        arguments = [str(theirs.fileno()), "", str(self._folder), str(GRACE_S)]
        # Without the Python paths of a Ray worker.
        hidden = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "LD_PRELOAD")
        with theirs, (self._folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(guard), *arguments, *self._serve],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
                env={name: value for name, value in os.environ.items() if name not in hidden},
            )

    def _log_text(self) -> str:
        try:
            return (self._folder / "log").read_text(errors="replace")
        except FileNotFoundError:
            return ""
