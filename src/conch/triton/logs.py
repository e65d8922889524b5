"""Write the log of a model to that of the server."""

import logging
from typing import Any

import triton_python_backend_utils as pb_utils

from conch.wire.access import fields_of, to_line


class TritonHandler(logging.Handler):
    """Writes records to Triton's log: debug is its verbose level, and critical an error.

    A model's process has no log otherwise: Python shows warnings and errors there, without their
    level, and drops what is less.
    """

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record; a failure is no error of the request that it is about."""
        try:
            fields = fields_of(record)
            text = self.format(record) if fields is None else to_line(fields)
            _writer(record.levelno)(text)
        except Exception:
            self.handleError(record)


def _writer(level: int) -> Any:
    logger = pb_utils.Logger
    if level >= logging.ERROR:
        return logger.log_error
    if level >= logging.WARNING:
        return logger.log_warn
    return logger.log_info if level >= logging.INFO else logger.log_verbose


def log_to_triton() -> None:
    """Let what Conch logs in this process reach Triton's log, from level info up."""
    logger = logging.getLogger("conch")
    if not any(isinstance(handler, TritonHandler) for handler in logger.handlers):
        logger.addHandler(TritonHandler())
        logger.setLevel(logging.INFO)
