"""Tell who watches a run that a server of its `--url` is gone, and when it answers again."""

import socket
import threading
from collections.abc import Sequence
from typing import Protocol

from conch.client.address import Address

LOOK_S = 5.0
"""Seconds between two looks; the second in a row that finds nobody counts."""
CONNECT_S = 5.0
"""Seconds for a connection. A busy server takes it at once, however late it answers."""


class ServerEvents(Protocol):
    """What is told of servers."""

    def server_lost(self, url: str, reason: str) -> None:
        """Tell that nobody answers at an address."""
        ...

    def server_back(self, url: str) -> None:
        """Tell that somebody does again."""
        ...


class ServerWatch:
    """A thread that looks at servers inside a `with` block. The workers wait by themselves."""

    def __init__(self, urls: Sequence[str], events: ServerEvents, look_s: float = LOOK_S) -> None:
        """Look at nothing yet.

        Args:
            urls: Addresses of the servers.
            events: Is called on the thread.
            look_s: Seconds between two looks.
        """
        self._urls, self._events, self._look_s = urls, events, look_s
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look, name="conch-bulk-watch", daemon=True)

    def __enter__(self) -> "ServerWatch":
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        # A look may take as long as a connection does, and nobody waits for what it finds.
        self._done.set()

    def _look(self) -> None:
        misses = dict.fromkeys(self._urls, 0)
        while not self._done.wait(self._look_s):
            for url in misses:
                reason = _absence(url)
                if self._done.is_set():
                    return
                if reason is None and misses[url] > 1:
                    self._events.server_back(url)
                misses[url] = 0 if reason is None else misses[url] + 1
                if reason is not None and misses[url] == 2:
                    self._events.server_lost(url, reason)


def _absence(url: str) -> str | None:
    """Return why nobody takes a connection; None if somebody does."""
    host, _, port = Address.parse(url).target.partition("/")[0].rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_S).close()
    except OSError as error:
        return f"nobody answers at {url}: {error}"
    return None
