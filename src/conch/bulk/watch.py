"""Report during a run that a server of its `--url` is gone, and that it answers again."""

import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from urllib.parse import urlsplit

from conch.client.address import Address

LOOK_S = 5.0
"""Seconds between two looks; the second in a row without an answer counts."""
CONNECT_S = 5.0
"""Seconds for a connection. A busy server takes it at once, however late it answers."""


def absence(url: str) -> str | None:
    """Return why no server takes a connection; None if one does."""
    parts = urlsplit(str(Address.parse(url)))
    try:
        socket.create_connection((parts.hostname, parts.port or 0), CONNECT_S).close()
    except OSError as error:
        return f"no server answers at {url}: {error}"
    return None


@contextmanager
def watched(
    urls: Sequence[str],
    on_loss: Callable[[str, str], None],
    on_return: Callable[[str], None],
    *,
    look_s: float = LOOK_S,
    absence: Callable[[str], str | None] = absence,
) -> Iterator[None]:
    """Watch servers inside the block; the two functions are called on a thread."""
    done = threading.Event()

    def look() -> None:
        misses = dict.fromkeys(urls, 0)
        while not done.wait(look_s):
            for url in misses:
                problem = absence(url)
                if done.is_set():
                    return
                if problem is None and misses[url] > 1:
                    on_return(url)
                misses[url] = 0 if problem is None else misses[url] + 1
                if problem is not None and misses[url] == 2:
                    on_loss(url, problem)

    threading.Thread(target=look, name="conch-bulk-watch", daemon=True).start()
    try:
        yield
    finally:
        # A look may take as long as a connection does, and its result has no use now.
        done.set()
