"""The log of a command, on stderr."""

import contextlib
import logging
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def shown_log(level: str) -> Iterator[None]:
    """Show Conch's log on stderr inside a `with` block, from a level up."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)-7s %(message)s"))
    logger = logging.getLogger("conch")
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(level.upper())
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)
