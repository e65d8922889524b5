"""The processes of one server: start it under a guard, look at its stubs, end it without leftovers.

A stub is the process of a Python model.
"""

import contextlib
import ctypes
import errno
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from conch.launcher import guard
from conch.launcher.healing import Look, Quiet
from conch.launcher.logs import LOGGER, LogReader
from conch.processes import model_processes, stat_fields
from conch.wire.errors import ServerError

_PIDFD_GETFD = 438
"""Number of the system call pidfd_getfd(2), the same on every architecture."""
_CLOSED_SINCE = (errno.EBADF, errno.ENOTSOCK, errno.ENOTCONN)
"""Errors of a connection that the server has closed since it was listed."""
OUTPUT_TIMEOUT_S = 5.0
ORPHAN_GRACE_S = 3.0
"""Seconds for the server to stop when this program was killed: no client waits for its answers."""
LOOK_S = 0.1
GUARD_TIMEOUT_S = 5.0


class ServerProcesses:
    def __init__(self, server: int) -> None:
        self._server = server

    def stubs(self) -> dict[int, str]:
        return model_processes(self._server)

    def look_at(self, stubs: Mapping[int, str]) -> dict[int, Look]:
        """Return the state of the stubs of models by process id, or raise an OSError."""
        looks = {}
        for process, model in stubs.items():
            state, parent = _state_and_parent(process)
            # The id of a process that has gone may belong to another one by now.
            looks[process] = Look(model, state if parent == self._server else "")
        return looks

    def look_at_server(self) -> dict[int, Look]:
        return {self._server: Look("tritonserver", _state_and_parent(self._server)[0])}

    def kill(self, process: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)

    def cut_connections(self, ports: Collection[int]) -> None:
        """End every TCP connection that clients have to these ports of the server.

        When the process of a BLS model dies, the requests that it had taken never end: Triton waits
        for its answers without a limit. Clients learn of it only by the end of their connections.
        """
        process = os.pidfd_open(self._server)
        try:
            for connection in psutil.Process(self._server).net_connections("tcp"):
                is_open = connection.status == psutil.CONN_ESTABLISHED
                if is_open and connection.laddr.port in ports:
                    _cut(process, connection.fd)
        except psutil.Error as error:
            raise OSError(str(error)) from error
        finally:
            os.close(process)


def cpu_seconds(processes: Iterable[int]) -> float:
    ticks = 0
    for process in processes:
        with contextlib.suppress(OSError, IndexError):
            ticks += sum(map(int, stat_fields(str(process))[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


def _state_and_parent(process: int) -> tuple[str, int]:
    """Return the letter of a process's state, as proc(5) has it, and its parent's id."""
    try:
        state, parent, *_ = stat_fields(str(process))
    except (FileNotFoundError, ProcessLookupError, ValueError):
        return "", 0
    return state, int(parent)


def _cut(process: int, descriptor: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        copied = int(libc.syscall(_PIDFD_GETFD, process, descriptor, 0))
        if copied < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        with socket.socket(fileno=copied) as copy:
            copy.shutdown(socket.SHUT_RDWR)
    except OSError as error:
        if error.errno not in _CLOSED_SINCE:
            raise


@dataclass(frozen=True)
class Workspace:
    name: str
    directory: Path

    @classmethod
    def new(cls) -> "Workspace":
        name = f"conch-{secrets.token_hex(6)}"
        return cls(name, Path(tempfile.mkdtemp(prefix=f"{name}-")))

    @property
    def segment_prefix(self) -> str:
        return f"{self.name}-"

    def close_to_others(self) -> None:
        """Take the rights of other users of this machine away from the shared memory.

        It holds audio and texts. Boost gives each segment the mode 0644, whatever the umask is.
        """
        for segment in guard.segments(self.segment_prefix):
            with contextlib.suppress(FileNotFoundError):
                segment.chmod(0o600)

    def remove(self) -> None:
        """Remove the folder and any segment left; do nothing if there is none."""
        names = guard.remove_leftovers(self.segment_prefix, self.directory)
        if names:
            LOGGER.debug("removed shared memory left by the server: %s", ", ".join(names))


class ServerProcess:
    """A running `command` in a separate session and process group, watched by a guard.

    In a separate session a terminal's Ctrl-C does not reach Triton. This program gets it and stops
    Triton in order.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: dict[str, str],
        workspace: Workspace,
        *,
        least_level: int,
    ) -> None:
        self._lifeline, theirs = socket.socketpair()
        try:
            with theirs:
                self.popen = subprocess.Popen(
                    [
                        *(sys.executable, "-I", "-S", guard.__file__),
                        *(str(theirs.fileno()), workspace.segment_prefix),
                        *(str(workspace.directory), str(ORPHAN_GRACE_S)),
                        *command,
                    ],
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,
                )
        except BaseException:
            # A guard that has started takes this for the end of the parent.
            self._lifeline.close()
            raise
        self.workspace = workspace
        self.processes = ServerProcesses(self.popen.pid)
        assert self.popen.stdout is not None
        self.log = LogReader(self.popen.stdout, least_level)

    def end(self, timeout_s: float) -> None:
        """Stop the server, kill it after `timeout_s` seconds (0: at once), and clean up.

        It is killed earlier when it computes nothing any more: Triton waits for the connections of
        idle clients, and for requests that a dead process had taken. A second Ctrl-C kills it at
        once and is raised again. A process that survives is a `ServerError`.
        """
        try:
            if timeout_s > 0 and self.popen.poll() is None:
                self._stop(timeout_s)
        finally:
            try:
                self._finish()
            finally:
                self.workspace.remove()

    def kill(self) -> None:
        """Kill every process of the server; a signal handler may call this."""
        guard.kill_group(self.popen.pid)

    def _stop(self, timeout_s: float) -> None:
        models = self.processes.stubs()
        self.popen.terminate()
        began = time.monotonic()
        quiet = Quiet()
        while self.popen.poll() is None:
            now = time.monotonic()
            if quiet.look(self.processes.look_at(models), cpu_seconds(models), now):
                LOGGER.debug("tritonserver computes nothing any more and is killed")
                return
            if now - began >= timeout_s:
                LOGGER.warning("tritonserver did not stop within %g s and is killed", timeout_s)
                return
            time.sleep(LOOK_S)

    def _finish(self) -> None:
        gone = guard.kill_group(self.popen.pid)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.popen.wait(guard.KILL_TIMEOUT_S)
        self.log.join(OUTPUT_TIMEOUT_S)
        self._release_guard()
        # The last ones may have gone since.
        if not gone and (left := guard.group_members(self.popen.pid)):
            raise ServerError(f"processes of tritonserver cannot be killed: {left}")

    def _release_guard(self) -> None:
        with contextlib.suppress(OSError), self._lifeline:
            self._lifeline.settimeout(GUARD_TIMEOUT_S)
            self._lifeline.sendall(b"d")
            self._lifeline.recv(1)
