"""Tell who watches a run that a server of its `--url` is gone, and when it answers again."""

import threading
from collections.abc import Mapping, Sequence
from typing import Protocol

from conch.client import Client
from conch.wire.errors import ConchError, UnreachableError

LOOK_S = 5.0
"""Seconds between two looks; the second in a row that finds nobody counts."""


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

    def __init__(
        self,
        urls: Sequence[str],
        headers: Mapping[str, str],
        events: ServerEvents,
        look_s: float = LOOK_S,
    ) -> None:
        """Look at nothing yet.

        Args:
            urls: Addresses of the servers.
            headers: Headers of every request.
            events: Is called on the thread.
            look_s: Seconds between two looks.
        """
        self._urls, self._headers, self._events, self._look_s = urls, headers, events, look_s
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look, name="conch-bulk-watch", daemon=True)

    def __enter__(self) -> "ServerWatch":
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._done.set()
        self._thread.join()

    def _look(self) -> None:
        misses = dict.fromkeys(self._urls, 0)
        while not self._done.wait(self._look_s):
            for url in misses:
                reason = self._absence(url)
                if reason is None and misses[url] > 1:
                    self._events.server_back(url)
                misses[url] = 0 if reason is None else misses[url] + 1
                if reason is not None and misses[url] == 2:
                    self._events.server_lost(url, reason)

    def _absence(self, url: str) -> str | None:
        """Return why nobody answers; None for any answer, and for one that takes long."""
        try:
            with Client(url, headers=self._headers) as client:
                client.is_ready()
        except UnreachableError as error:
            return str(error)
        except ConchError:
            return None
        return None
