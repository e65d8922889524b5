"""The server to measure: a running one, or one started for the benchmark."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from conch.bench.memory import MemorySampler


@contextmanager
def server_of(url: str | None) -> Iterator[tuple[str, "MemorySampler | None"]]:
    """Yield the address of a running server, or of a new one with its memory.

    Raises:
        ServerError: the server cannot be started.
    """
    if url is not None:
        yield url, None
        return
    # Imported here: only a new server needs its packages.
    from conch.bench.own_server import own_server

    with own_server() as found:
        yield found
