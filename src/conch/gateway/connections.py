"""The connections of a gateway: as many as its program has file descriptors for."""

import asyncio
import contextlib
import resource
import sys
from collections.abc import Callable

from aiohttp import web

SPARE = 512
"""File descriptors for uploads, servers, the processes that `conch serve` watches, and up to three
times BACKLOG connections that are accepted before they count."""
BACKLOG = 128
"""Connections that may wait to be accepted."""


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
