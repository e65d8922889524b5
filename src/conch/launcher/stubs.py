"""The processes of a server: its own, and those of its Python models ("stubs")."""

import contextlib
import ctypes
import errno
import os
import signal
import socket
from collections.abc import Collection, Iterable, Mapping

import psutil

from conch.launcher.healing import Look
from conch.processes import model_processes, stat_fields

_PIDFD_GETFD = 438
"""Number of the system call pidfd_getfd(2), the same on every architecture."""
_CLOSED_SINCE = (errno.EBADF, errno.ENOTSOCK, errno.ENOTCONN)
"""Errors of a connection that the server has closed since it was listed."""


class ServerProcesses:
    """The processes of one server, seen from outside."""

    def __init__(self, server: int) -> None:
        self._server = server

    def stubs(self) -> dict[int, str]:
        """Return the model of each living stub, by process id."""
        return model_processes(self._server)

    def look_at(self, stubs: Mapping[int, str]) -> dict[int, Look]:
        """Return the state of stubs, given with the names of their models, by process id.

        An `OSError` says that it cannot be read, for example without free file descriptors.
        """
        looks = {}
        for process, model in stubs.items():
            state, parent = _state_and_parent(process)
            # The id of a process that has gone may belong to another one by now.
            looks[process] = Look(model, state if parent == self._server else "")
        return looks

    def look_at_server(self) -> dict[int, Look]:
        """Return the state of the server, under its own name, by process id."""
        return {self._server: Look("tritonserver", _state_and_parent(self._server)[0])}

    def kill(self, process: int) -> None:
        """Kill a process unless it has gone."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)

    def cut_connections(self, ports: Collection[int]) -> None:
        """End every TCP connection that clients have to these ports of the server.

        When the process of a BLS model dies, the requests that it had taken never end: Triton waits
        for its answers without a limit. Clients learn of it only by the end of their connections.
        An `OSError` says that the process is gone, or that the kernel or a container's rules forbid
        it.
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
    """Return the CPU time that the living ones of these processes have used."""
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
    """Shut down a connection of another process, by a copy of its descriptor."""
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
