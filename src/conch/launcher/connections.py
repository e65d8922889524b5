"""Cut the connections of a server's clients from outside.

When the process of a BLS model dies, the requests that it had taken never end: Triton waits for its
answers without a limit. Clients learn of it only by the end of their connections.
"""

import ctypes
import errno
import os
import socket
from collections.abc import Collection

import psutil

_PIDFD_GETFD = 438
"""Number of the system call pidfd_getfd(2), the same on every architecture."""
_CLOSED_SINCE = (errno.EBADF, errno.ENOTSOCK, errno.ENOTCONN)
"""Errors of a connection that the server has closed since it was listed."""


def cut_connections(server: int, ports: Collection[int]) -> None:
    """End every TCP connection that clients have to these ports of a process.

    Raises:
        OSError: the process is gone, or the kernel or the rules of a container do not allow it.
    """
    process = os.pidfd_open(server)
    try:
        for connection in psutil.Process(server).net_connections("tcp"):
            is_open = connection.status == psutil.CONN_ESTABLISHED
            if is_open and connection.laddr.port in ports:
                _cut(process, connection.fd)
    except psutil.Error as error:
        raise OSError(str(error)) from error
    finally:
        os.close(process)


def _cut(process: int, descriptor: int) -> None:
    try:
        with socket.socket(fileno=_copied(process, descriptor)) as copy:
            copy.shutdown(socket.SHUT_RDWR)
    except OSError as error:
        if error.errno not in _CLOSED_SINCE:
            raise


def _copied(process: int, descriptor: int) -> int:
    """Return a descriptor of this process for an open file of another one."""
    libc = ctypes.CDLL(None, use_errno=True)
    copied = int(libc.syscall(_PIDFD_GETFD, process, descriptor, 0))
    if copied < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return copied
