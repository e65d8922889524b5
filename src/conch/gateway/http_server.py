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
from aiohttp.web_protocol import RequestHandler, _ErrInfo

from conch.gateway.reading import problem_of

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


class _Connection(RequestHandler):
    """A connection that tells a request if the rest of its body is damaged.

    aiohttp queues such an error behind the request, which would wait for the rest.
    """

    __slots__ = ()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not self._messages or not isinstance(found := self._messages[-1][0], _ErrInfo):
            return
        bodies = [body for message, body in self._messages if message is not found]
        if self._current_request is not None:
            bodies.insert(0, self._current_request.content)
        if bodies and not bodies[-1].is_eof():
            bodies[-1].set_exception(web.RequestPayloadError(found.message), found.exc)


def limited(server: web.Server, most: int) -> Callable[[], asyncio.BaseProtocol]:
    """Return the factory of protocols for new connections; it ends those above the limit.

    Without a file descriptor asyncio would try to accept them, ever more often, and serve none.
    """

    def protocol() -> asyncio.BaseProtocol:
        if len(server.connections) >= most:
            return _Refused()
        return _Connection(server, loop=asyncio.get_running_loop(), **server._kwargs)

    return protocol


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
    if isinstance(error, ConnectionResetError):
        return False  # the access log has it
    if not isinstance(error, HttpProcessingError | web.RequestPayloadError):
        return True
    record.levelno, record.levelname = logging.INFO, "INFO"
    record.exc_info = None
    record.msg, record.args = "wrong HTTP: %s", (problem_of(error)[:MAX_SHOWN],)
    return LOGGER.isEnabledFor(logging.INFO)


LOGGER.addFilter(shorten)
