"""Errors as OpenAI's clients read them: `{"error": {message, type, param, code}}` and a status."""

import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any

from conch.client.live import GAVE_UP
from conch.wire import errors
from conch.wire.errors import code_of

logger = logging.getLogger(__name__)

RETRY_AFTER_S = 2
"""Seconds after which a client may try again at a server that is full."""
UNREACHABLE_RETRY_AFTER_S = 5
"""Seconds after which a client may try again if no server answers."""

_SEGMENT = re.compile(r"\S*[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\S*")
"""Names of Triton's shared memory, which end with a UUID. With a name, anybody can read it."""
_ADDRESS = re.compile(r"grpcs?://\S+?(?=[:,;]?(\s|$))")

_NEVER_AGAIN = {"x-should-retry": "false"}
"""Header that keeps OpenAI's clients from repeating a request that would fail again."""

_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}


class ApiError(Exception):
    """An error to answer a client with; `param` is the field that is wrong, `code` for programs."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.param, self.code = status, param, code
        self.headers = dict(headers or {})

    @property
    def type(self) -> str:
        """OpenAI's name of this kind of error."""
        otherwise = "server_error" if self.status >= 500 else "invalid_request_error"
        return _TYPES.get(self.status, otherwise)

    def as_dict(self) -> dict[str, Any]:
        """Return the object under `error` in an answer or an event."""
        return {"message": str(self), "type": self.type, "param": self.param, "code": self.code}


def openais_body(error: ApiError, request_id: str) -> dict[str, Any]:
    return {"error": error.as_dict()}


def deepgrams_body(error: ApiError, request_id: str) -> dict[str, Any]:
    code = "INVALID_AUTH" if error.status == 401 else (error.code or error.type).upper()
    return {"err_code": code, "err_msg": str(error), "request_id": request_id}


def invalid(param: str | None, message: str) -> ApiError:
    return ApiError(400, message, param=param, code="invalid_value")


def wrong(param: str, takes: str, sent: object) -> ApiError:
    """Return the error of a field that takes something else than was sent."""
    return invalid(param, f"{param} takes {takes}; sent: {sent!r:.80}")


def one_of(name: str, value: str, known: Sequence[str]) -> str:
    if value not in known:
        raise wrong(name, ", ".join(known), value)
    return value


def overloaded(message: str, retry_after_s: int = RETRY_AFTER_S) -> ApiError:
    """Return the error of a gateway or a server that is full, and says when to try again."""
    return ApiError(503, message, code="overloaded", headers={"Retry-After": str(retry_after_s)})


def api_error(failure: Exception) -> ApiError:
    """Return the error of the API for another error; of a defect it has only a reference."""
    if isinstance(failure, ApiError):
        return failure
    error = failure if isinstance(failure, errors.ConchError) else errors.public_error(failure)
    code = code_of(error)
    # Clients must not see the servers' addresses and memory.
    message = _SEGMENT.sub("…", _ADDRESS.sub("the speech server", str(error)))
    match error:
        case errors.OptionError():
            return ApiError(400, message, param=_option_in(message), code=code)
        case errors.AudioError():
            return ApiError(400, message, param="file", code=code)
        case errors.TextError():
            return ApiError(400, message, param="input", code=code)
        case errors.PoisonError():
            return ApiError(422, message, code=code, headers=_NEVER_AGAIN)
        case errors.DeadlineError():
            return ApiError(504, message, code=code, headers=_NEVER_AGAIN)
        case errors.RequestCancelledError():
            return ApiError(499, message, code=code)
        case errors.OverloadedError():
            return overloaded(message, error.retry_after_s or RETRY_AFTER_S)
        case errors.MissingModelError():
            return ApiError(400, message, param=_option_in(message) or "model", code=code)
        case errors.ComponentError() | errors.InternalError():
            return ApiError(500, message, code=code, headers=_NEVER_AGAIN)
        case errors.ServerError():
            logger.warning("%s", error)
            headers = {"Retry-After": str(UNREACHABLE_RETRY_AFTER_S)}
            said = GAVE_UP if message.startswith(GAVE_UP) else "no speech server answers"
            message = f"{said}; try again later"
            return ApiError(503, message, code=code, headers=headers)
        case errors.TranscriptionError():
            return ApiError(400, message, code=code)
    return ApiError(500, message, code=code, headers=_NEVER_AGAIN)


def named(error: errors.OptionError, fields: Mapping[str, str]) -> ApiError:
    """Return the error of an option; it begins with the field, by option, that has set it."""
    failure = api_error(error)
    field = fields.get(failure.param or "")
    return invalid(field, f"{field}: {failure}") if field else failure


def _option_in(message: str) -> str | None:
    """Return the option that a message names, None if it names none."""
    match = re.search(r"option '(\w+)'", message)
    return match[1] if match else None
