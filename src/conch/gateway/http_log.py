"""aiohttp's log of a gateway's connections."""

import logging

from aiohttp.http_exceptions import HttpProcessingError

LOGGER = logging.getLogger("conch.gateway.http")
MAX_SHOWN = 120
"""Most characters of an error, which may quote what was sent."""


def shorten(record: logging.LogRecord) -> bool:
    """Make an error of a client's HTTP one line at level info; return whether it is shown.

    aiohttp logs it with a traceback, and anybody can send a line that is too long.
    """
    error = record.exc_info[1] if record.exc_info else None
    if not isinstance(error, HttpProcessingError):
        return True
    record.levelno, record.levelname = logging.INFO, "INFO"
    record.exc_info = None
    record.msg, record.args = "wrong HTTP: %s", (" ".join(error.message.split())[:MAX_SHOWN],)
    return LOGGER.isEnabledFor(logging.INFO)


LOGGER.addFilter(shorten)
