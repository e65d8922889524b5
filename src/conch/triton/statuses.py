"""Errors as clients see them."""

import logging
from typing import Any

import triton_python_backend_utils as pb_utils

from conch.wire.errors import (
    DeadlineError,
    InvalidRequestError,
    MissingModelError,
    OverloadedError,
    RequestCancelledError,
    TranscriptionError,
)

logger = logging.getLogger(__name__)


def triton_error(error: Exception) -> Any:
    """Return an exception as the `TritonError` that a client sees."""
    code, message = _status(error)
    return pb_utils.TritonError(message, getattr(pb_utils.TritonError, code))


def stream_error(error: Exception) -> Any:
    """Return an exception as the `TritonError` of a stream, which carries a text but no code."""
    code, message = _status(error)
    return pb_utils.TritonError(f"{code}: {message}", getattr(pb_utils.TritonError, code))


def _status(error: Exception) -> tuple[str, str]:
    """Return Triton's name for the kind of an error, and what to say about it."""
    codes = {
        InvalidRequestError: "INVALID_ARG",
        OverloadedError: "UNAVAILABLE",
        DeadlineError: "UNAVAILABLE",
        MissingModelError: "UNAVAILABLE",
        RequestCancelledError: "CANCELLED",
        TranscriptionError: "INTERNAL",
    }
    for kind, code in codes.items():
        if isinstance(error, kind):
            return code, str(error)
    logger.error("a request failed unexpectedly", exc_info=error)
    return "INTERNAL", f"internal error: {error!r}"
