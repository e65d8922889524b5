"""Errors in the answers of a gateway: `{"error": {message, type, param, code}}`.

The gateway writes the code of an error of the server, and Conch's own client makes the same error
of it. The kind of the gateway's own errors follows from their HTTP status.
"""

import contextlib
import json
from collections.abc import Mapping
from typing import Any

from conch.wire import errors

_CODES: Mapping[type[errors.ConchError], str] = {
    errors.OptionError: "invalid_value",
    errors.AudioError: "invalid_audio",
    errors.TextError: "invalid_text",
    errors.SessionError: "session_expired",
    errors.PoisonError: "file_ends_server",
    errors.InvalidRequestError: "invalid_request",
    errors.DeadlineError: "deadline_exceeded",
    errors.RequestCancelledError: "cancelled",
    errors.OverloadedError: "overloaded",
    errors.MissingModelError: "model_not_loaded",
    errors.ComponentError: "component_failed",
    errors.InternalError: "server_error",
    errors.UnreachableError: "no_server",
    errors.ServerLostError: "server_lost",
    errors.ServerError: "no_server",
}
_KINDS = {code: kind for kind, code in _CODES.items()} | {"no_server": errors.UnreachableError}
_BY_STATUS: Mapping[int, type[errors.ConchError]] = {
    **dict.fromkeys((400, 413, 415, 422), errors.InvalidRequestError),
    **dict.fromkeys((429, 503), errors.OverloadedError),
    **dict.fromkeys((502, 504), errors.UnreachableError),
}


def code_of(error: errors.ConchError) -> str:
    """Return the code of an error of a server or of its client."""
    return next((code for kind, code in _CODES.items() if isinstance(error, kind)), "server_error")


def from_error(
    error: Mapping[str, Any],
    url: str,
    otherwise: type[errors.ConchError] = errors.ServerError,
    details: str = "",
) -> errors.ConchError:
    """Return the exception for the content of `error`; it may be empty."""
    message = str(error.get("message") or "no reason given")
    kind = _KINDS.get(str(error.get("code")), otherwise)
    if kind is errors.OptionError and error.get("param") == "sample_rate":
        kind = errors.AudioError  # Triton takes it with the audio, a WebSocket in its query
    if issubclass(kind, errors.TranscriptionError) and error:
        return kind(message)
    return kind(f"{url}: {message}{details}")


def from_answer(status: int, body: bytes, url: str) -> errors.ConchError:
    """Return the exception for an answer of a gateway, or of a proxy in front of it.

    The body is JSON with an `error`, or anything. `url` is for errors about the gateway itself.
    """
    error: Any = None
    with contextlib.suppress(ValueError, RecursionError, AttributeError):
        error = json.loads(body).get("error")
    hint = "; api_key, --api-key and CONCH_API_KEY give a key" if status == 401 else ""
    kind = _BY_STATUS.get(status, errors.ServerError)
    return from_error(
        error if isinstance(error, dict) else {}, url, kind, f" (status {status}{hint})"
    )
