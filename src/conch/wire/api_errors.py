"""Errors in the answers of a gateway: `{"error": {message, type, param, code}}`.

The gateway writes the code of an error of the server, and Conch's own client makes the same error
of it. The kind of the gateway's own errors follows from their HTTP status.
"""

import contextlib
import json
from collections.abc import Mapping
from typing import Any

from conch.wire.errors import (
    AudioError,
    ComponentError,
    ConchError,
    DeadlineError,
    InternalError,
    InvalidRequestError,
    MissingModelError,
    OptionError,
    OverloadedError,
    PoisonError,
    RequestCancelledError,
    ServerError,
    ServerLostError,
    SessionError,
    TranscriptionError,
    UnreachableError,
)

_CODES: Mapping[type[ConchError], str] = {
    OptionError: "invalid_value",
    AudioError: "invalid_audio",
    SessionError: "session_expired",
    PoisonError: "file_ends_server",
    InvalidRequestError: "invalid_request",
    DeadlineError: "deadline_exceeded",
    RequestCancelledError: "cancelled",
    OverloadedError: "overloaded",
    MissingModelError: "model_not_loaded",
    ComponentError: "component_failed",
    InternalError: "server_error",
    UnreachableError: "no_server",
    ServerLostError: "server_lost",
    ServerError: "no_server",
}
_KINDS = {code: kind for kind, code in _CODES.items()} | {"no_server": UnreachableError}
_BY_STATUS: Mapping[int, type[ConchError]] = {
    400: InvalidRequestError,
    413: InvalidRequestError,
    415: InvalidRequestError,
    422: InvalidRequestError,
    429: OverloadedError,
    502: UnreachableError,
    503: OverloadedError,
    504: UnreachableError,
}


def code_of(error: ConchError) -> str:
    """Return the code of an error of a server or of its client."""
    return next((code for kind, code in _CODES.items() if isinstance(error, kind)), "server_error")


def from_error(
    error: Mapping[str, Any],
    url: str,
    otherwise: type[ConchError] = ServerError,
    details: str = "",
) -> ConchError:
    """Return the exception for the content of `error`; it may be empty.

    Args:
        error: Its fields.
        url: The gateway's URL, for errors about itself.
        otherwise: Kind of an error without a known code.
        details: What follows the message of an error about the gateway.
    """
    message = str(error.get("message") or "no reason is told")
    kind = _KINDS.get(str(error.get("code")), otherwise)
    if kind is OptionError and error.get("param") == "sample_rate":
        kind = AudioError  # Triton takes it with the audio, a WebSocket in its query
    if issubclass(kind, TranscriptionError) and error:
        return kind(message)
    return kind(f"{url}: {message}{details}")


def from_answer(status: int, body: bytes, url: str) -> ConchError:
    """Return the exception for an answer of a gateway, or of a proxy in front of it.

    The body is JSON with an `error`, or anything. `url` is for errors about the gateway itself.
    """
    error: Any = None
    with contextlib.suppress(ValueError, RecursionError, AttributeError):
        error = json.loads(body).get("error")
    hint = "; api_key, --api-key and CONCH_API_KEY give a key" if status == 401 else ""
    kind = _BY_STATUS.get(status, ServerError)
    return from_error(
        error if isinstance(error, dict) else {}, url, kind, f" (status {status}{hint})"
    )
