"""The server that is measured: a running one, or one that is started for it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from conch.bench.memory import MemorySampler


@contextmanager
def server_of(url: str | None) -> Iterator[tuple[str, "MemorySampler | None"]]:
    """Yield the address of a running server, or of one started for the benchmark and its memory.

    Raises:
        ServerError: it cannot be started.
    """
    if url is not None:
        yield url, None
        return
    # Only a server of one's own needs the packages that it is made of.
    from conch.bench.own_server import own_server

    with own_server() as found:
        yield found
