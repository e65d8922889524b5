"""The server to measure: a running one, or one started for the benchmark."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from conch.bench.memory import MemorySampler


@contextmanager
def server_of(url: str | None, whisper: str = "") -> Iterator[tuple[str, "MemorySampler | None"]]:
    """Yield the address of a running server, or of a new one with its memory.

    Args:
        url: address of a running server; None starts one.
        whisper: name or folder of the Whisper of a new one; empty for the default.

    Raises:
        ConfigError: that Whisper is not here, or not whole.
        ServerError: the server cannot be started.
    """
    if url is not None:
        yield url, None
        return
    # Imported here: only a new server needs its packages.
    from conch.bench.own_server import own_server

    with own_server(whisper=whisper) as found:
        yield found
