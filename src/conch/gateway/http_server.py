"""The HTTP server below a gateway: how many connections it takes, and what it logs of them."""

import asyncio
import contextlib
import logging
import resource
import socket
import sys
from collections.abc import Callable

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

LOGGER = logging.getLogger("conch.gateway.http")
MAX_SHOWN = 120
"""Most characters of an error, which may quote what was sent."""
SPARE = 512
"""File descriptors for uploads, servers, the processes that `conch serve` watches, and up to three
times BACKLOG connections that are accepted before they count."""
BACKLOG = 128
"""Connections that may wait to be accepted."""


def keep_alive(server: asyncio.Server, idle_s: float) -> None:
    """Let the system find out in four times `idle_s` seconds that a silent peer has vanished.

    Connections have the settings of the socket that accepts them.
    """
    for own in server.sockets:
        own.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in (("IDLE", idle_s), ("INTVL", idle_s), ("CNT", 3)):
            if (option := getattr(socket, f"TCP_KEEP{name}", None)) is not None:  # not on macOS
                own.setsockopt(socket.IPPROTO_TCP, option, max(1, round(value)))


class _Refused(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.abort()


def limited(server: web.Server, most: int) -> Callable[[], asyncio.BaseProtocol]:
    """Return the factory of protocols for new connections; it ends those above the limit.

    Without a file descriptor asyncio would try to accept them, ever more often, and serve none.
    """
    return lambda: server() if len(server.connections) < most else _Refused()


def most_connections() -> int:
    """Return how many connections there may be, and let the program open all that it is allowed."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):  # macOS takes less than it says
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else max(soft - SPARE, soft // 2)


def shorten(record: logging.LogRecord) -> bool:
    """Make an error of a client's HTTP one line at level info; return whether it is shown.

    aiohttp logs it with a traceback, and anybody can send a line that is too long.
    """
    error = record.exc_info[1] if record.exc_info else None
    if not isinstance(error, HttpProcessingError):
        return True
    record.levelno, record.levelname = logging.INFO, "INFO"
    record.exc_info = None
    record.msg, record.args = "wrong HTTP: %s", (" ".join(error.message.split())[:MAX_SHOWN],)
    return LOGGER.isEnabledFor(logging.INFO)


LOGGER.addFilter(shorten)
