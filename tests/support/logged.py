"""What a server says while a test runs."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from conch.launcher.logs import LOGGER


@contextmanager
def server_log() -> Iterator[list[str]]:
    """Yield the messages of servers that are logged inside the block, as they come."""
    messages: list[str] = []
    handler, before = logging.Handler(), LOGGER.level
    handler.emit = lambda record: messages.append(record.getMessage())  # type: ignore[method-assign]
    LOGGER.addHandler(handler)
    LOGGER.setLevel(logging.INFO)
    try:
        yield messages
    finally:
        LOGGER.removeHandler(handler)
        LOGGER.setLevel(before)
