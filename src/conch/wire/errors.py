"""All errors that Conch raises on purpose. Only a `TranscriptionError` is about a single request.

Triton has fewer statuses than there are kinds of errors. The text of an error answer therefore
begins with a code: `INVALID_OPTION: option 'nbest' …`. `to_wire` writes this text and `from_wire`
reads it.

A gateway answers with JSON: `{"error": {message, type, param, code}}`. It writes the code of an
error of the server, and Conch's client makes the same error of it (`from_answer`). The gateway's
own errors follow from their HTTP status.
"""

import contextlib
import json
import logging
import re
import secrets
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from conch.wire.foreign import NO_SHARED_MEMORY

logger = logging.getLogger(__name__)


class ConchError(Exception):
    """Root of every error below."""


class ConfigError(ConchError):
    """A model cannot be loaded as configured; the message names the key or the file."""


class ServerError(ConchError):
    """A `tritonserver` cannot be found, started, reached or stopped."""


class ServerLostError(ServerError):
    """The connection to a server was lost, or the process that answers there has died.

    A live stream that it held is gone: START again, there or elsewhere. `had_request` is whether
    the server had the request by then, which may be the cause.
    """

    def __init__(self, message: str, *, had_request: bool = True) -> None:
        super().__init__(message)
        self.had_request = had_request


class UnreachableError(ServerLostError):
    """No server answers at an address now."""


class BenchError(ConchError):
    """A benchmark cannot be run as asked; the message names the file, column or package."""


class BulkError(ConchError):
    """A run over many recordings cannot begin or go on; the message names what is wrong."""


class TranscriptionError(ConchError):
    """One request failed. Other requests are not affected."""

    code: ClassVar[str] = "INTERNAL"
    """Code of this kind of error, at the beginning of the answer's text."""
    status: ClassVar[str] = "INTERNAL"
    """Triton's name for the status of the answer. Several kinds share a status."""


class InvalidRequestError(TranscriptionError, ValueError):
    """The request cannot be served as sent."""

    code = "INVALID_REQUEST"
    status = "INVALID_ARG"


class OptionError(InvalidRequestError):
    """A request option is unknown, mistyped or out of range."""

    code = "INVALID_OPTION"

    @classmethod
    def of(cls, option: str, takes: str, sent: object) -> "OptionError":
        """Return the error of an option that takes something else than was sent."""
        return cls(f"option '{option}' takes {takes}; sent: {sent!r:.80}")


class AudioError(InvalidRequestError):
    """The audio is missing, empty, not finite or cannot be decoded."""

    code = "INVALID_AUDIO"


class TextError(InvalidRequestError):
    """The text to speak is missing, empty or too long, or has no word that the voice can speak."""

    code = "INVALID_TEXT"


class SessionError(InvalidRequestError):
    """A chunk belongs to no open stream: the stream never started, has ended or has expired."""

    code = "NO_SESSION"


class PoisonError(InvalidRequestError):
    """Servers were lost with this audio, one after the other: no other gets it."""

    code = "ENDS_SERVER"


class DeadlineError(TranscriptionError, TimeoutError):
    """The time budget of the request, `timeout_s` or `deadline_ms`, is over."""

    code = "DEADLINE_EXCEEDED"
    status = "UNAVAILABLE"


class RequestCancelledError(TranscriptionError):
    """The client cancelled the request."""

    code = "CANCELLED"
    status = "CANCELLED"


class OverloadedError(TranscriptionError):
    """A limit of the server is reached; try again later, or on another server."""

    code = "OVERLOADED"
    status = "UNAVAILABLE"

    @classmethod
    def until(cls, message: str, seconds: int) -> "OverloadedError":
        """Return the error of a server that will have room again, in at least a second.

        Triton has no place for the seconds but the text of its answer.
        """
        return cls(f"{message}; try again in {max(1, seconds)} s")

    @property
    def retry_after_s(self) -> int | None:
        """Seconds after which the server expects to have room; None if it does not say."""
        match = re.search(r"; try again in (\d{1,6}) s", str(self))
        return int(match[1]) if match else None


class ProcessLostError(TranscriptionError):
    """The process that answers for this model died while it had the request."""

    code = "PROCESS_LOST"
    status = "UNAVAILABLE"


class ComponentError(TranscriptionError):
    """A component model answered with an error."""

    code = "COMPONENT_FAILED"


class MissingModelError(ComponentError):
    """A component model that the request needs is not loaded on this server."""

    code = "MODEL_NOT_LOADED"
    status = "UNAVAILABLE"

    def __init__(self, message: str, model: str = "") -> None:
        super().__init__(message)
        self.model = model


class InternalError(TranscriptionError):
    """The server has a defect; the message names the entry in its log."""


def _with_subclasses(error_class: type[TranscriptionError]) -> Iterator[type[TranscriptionError]]:
    yield error_class
    for subclass in error_class.__subclasses__():
        yield from _with_subclasses(subclass)


_BY_CODE = {error_class.code: error_class for error_class in _with_subclasses(TranscriptionError)}


def to_wire(error: TranscriptionError) -> str:
    """Return an error as the text of an answer: `CODE: message`, or `CODE(model): message`."""
    model = f"({error.model})" if isinstance(error, MissingModelError) else ""
    return f"{error.code}{model}: {error}"


def from_wire(text: str) -> TranscriptionError | None:
    """Return the error that `to_wire` wrote, or None for a text that begins with no code."""
    match = re.fullmatch(r"([A-Z_]+)(?:\((\S*?)\))?: (.*)", text, re.DOTALL)
    if match is None or match[1] not in _BY_CODE:
        return None
    code, model, message = match.groups()
    error_class = _BY_CODE[code]
    if issubclass(error_class, MissingModelError):
        return error_class(message, model or "")
    return error_class(message)


def out_of_shared_memory(text: str) -> OverloadedError | None:
    """Return the error for Triton's message that /dev/shm is full, None for another message.

    Triton's own text names the segment, with which others could ask for its content
    (CVE-2025-23319).
    """
    if not NO_SHARED_MEMORY.search(text):
        return None
    return OverloadedError(
        "the server is out of shared memory: send less at once, or try again later"
    )


def public_error(failure: Exception) -> TranscriptionError:
    """Return the error to send to a client.

    An error that is not a `TranscriptionError` is a defect, unless shared memory has run out. It is
    logged with a reference, and the client gets an `InternalError` with that reference alone.
    """
    if isinstance(failure, TranscriptionError):
        return failure
    if full := out_of_shared_memory(str(failure)):
        logger.error("%s", full)
        return full
    reference = secrets.token_hex(4)
    logger.error("internal error %s", reference, exc_info=failure)
    return InternalError(f"internal error; the server's log has it as {reference}")


_API_CODES: Mapping[type[ConchError], str] = {
    OptionError: "invalid_value",
    AudioError: "invalid_audio",
    TextError: "invalid_text",
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
_BY_API_CODE = {code: error_class for error_class, code in _API_CODES.items()} | {
    "no_server": UnreachableError
}
_BY_HTTP_STATUS: Mapping[int, type[ConchError]] = {
    **dict.fromkeys((400, 413, 415, 422), InvalidRequestError),
    **dict.fromkeys((429, 503), OverloadedError),
    **dict.fromkeys((502, 504), UnreachableError),
}


def code_of(error: ConchError) -> str:
    return next(
        (code for cls, code in _API_CODES.items() if isinstance(error, cls)), "server_error"
    )


def from_error(
    error: Mapping[str, Any],
    url: str,
    otherwise: type[ConchError] = ServerError,
    details: str = "",
) -> ConchError:
    """Return the exception for the content of `error`; it may be empty."""
    message = str(error.get("message") or "no reason given")
    error_class = _BY_API_CODE.get(str(error.get("code")), otherwise)
    if error_class is OptionError and error.get("param") == "sample_rate":
        error_class = AudioError  # Triton takes it with the audio, a WebSocket in its query
    if issubclass(error_class, TranscriptionError) and error:
        return error_class(message)
    return error_class(f"{url}: {message}{details}")


def from_answer(status: int, body: bytes, url: str) -> ConchError:
    """Return the exception for an answer of a gateway, or of a proxy in front of it.

    The body is JSON with an `error`, or anything. `url` is for errors about the gateway itself.
    """
    error: Any = None
    with contextlib.suppress(ValueError, RecursionError, AttributeError):
        error = json.loads(body).get("error")
    hint = "; api_key, --api-key and CONCH_API_KEY give a key" if status == 401 else ""
    error_class = _BY_HTTP_STATUS.get(status, ServerError)
    return from_error(
        error if isinstance(error, dict) else {}, url, error_class, f" (status {status}{hint})"
    )
