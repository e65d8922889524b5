"""Report during a run that a server of its `--url` is gone, and that it answers again."""

import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from conch.client.address import Address

LOOK_S = 5.0
"""Seconds between two looks; the second in a row without an answer counts."""
CONNECT_S = 5.0
"""Seconds for a connection. A busy server takes it at once, however late it answers."""


class ServerEvents(Protocol):
    """Receiver of the state of servers, called on a separate thread."""

    def server_lost(self, url: str, reason: str) -> None:
        """Handle that no server answers at an address."""
        ...

    def server_back(self, url: str) -> None:
        """Handle that one answers again."""
        ...


@contextmanager
def watched(urls: Sequence[str], events: ServerEvents, look_s: float = LOOK_S) -> Iterator[None]:
    """Watch servers inside the block, with `look_s` seconds between two looks."""
    done = threading.Event()

    def look() -> None:
        misses = dict.fromkeys(urls, 0)
        while not done.wait(look_s):
            for url in misses:
                problem = absence(url)
                if done.is_set():
                    return
                if problem is None and misses[url] > 1:
                    events.server_back(url)
                misses[url] = 0 if problem is None else misses[url] + 1
                if problem is not None and misses[url] == 2:
                    events.server_lost(url, problem)

    threading.Thread(target=look, name="conch-bulk-watch", daemon=True).start()
    try:
        yield
    finally:
        # A look may take as long as a connection does, and its result has no use now.
        done.set()


def absence(url: str) -> str | None:
    """Return why no server takes a connection; None if one does."""
    host, _, port = Address.parse(url).target.partition("/")[0].rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_S).close()
    except OSError as error:
        return f"no server answers at {url}: {error}"
    return None
