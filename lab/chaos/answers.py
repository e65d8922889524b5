"""Answers to hostile requests: which hold, and what is wrong with those that do not."""

import json
import re
from dataclasses import dataclass

from conch.wire.errors import from_wire

NO_ANSWER = "no answer"
"""Status of a request that was not answered in time."""
LOST = "lost"
"""Status of a request whose connection broke before its answer."""
MAX_ERROR_CHARS = 2_000
"""Longest text of an error: one that is longer repeats what the client sent."""

OUTCOMES = ("answered", "refused", "unreadable", "busy")
"""Answers that hold; `unreadable` is Triton's 500 for what its parsers cannot read."""
_ANSWERED = ("200", "204", "OK", "1000")
_REFUSED = (
    *("INVALID_ARGUMENT", "NOT_FOUND", "UNIMPLEMENTED", "RESOURCE_EXHAUSTED", "OUT_OF_RANGE"),
    *("ALREADY_EXISTS", "FAILED_PRECONDITION", "PERMISSION_DENIED", "CANCELLED"),
    *("1002", "1003", "1007", "1008", "1009", "501", "505"),
)
_BUSY_CODES = ("OVERLOADED", "DEADLINE_EXCEEDED", "CANCELLED", "MODEL_NOT_LOADED")
"""Codes of the server that are no fault, whatever their status."""
_BUSY = ("503", "504", "499", "1001", "1013", "ABORTED", "DEADLINE_EXCEEDED")
"""Statuses of the gateway that are none either."""
_OF_TRITON = re.compile(
    "failed to parse the request JSON buffer|Unable to parse|attempt to (access|get)"
)
"""Beginnings of what Triton's own parsers say, with 500 or INTERNAL, of a request that is none."""
_INTERNALS = re.compile(r"conch-[0-9a-f]{12}|/dev/shm|Traceback|File \"/|0x[0-9a-f]{8,}")
"""What no client may read: names of shared memory, files and objects of the server."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back for one request, chunk or session."""

    status: str
    """HTTP status, gRPC status name, WebSocket close code, `NO_ANSWER` or `LOST`."""
    text: str = ""
    is_gateway: bool = False
    said: str = ""
    """What a visit was given: a text that was heard, or `audio`."""

    def __str__(self) -> str:
        return " ".join(filter(None, (self.status, self.text[:160], self.said[:160])))


def outcome(answer: Answer) -> str:
    """Return one of `OUTCOMES` for an answer that holds, else what is wrong with it.

    >>> outcome(Answer("400", "INVALID_OPTION: unknown option 'x'"))
    'refused'
    """
    if answer.status in _ANSWERED:
        return "answered"
    if shown := _INTERNALS.search(answer.text):
        return f"shows the server's inside: {shown[0]!r}"
    if len(answer.text) > MAX_ERROR_CHARS:
        return f"an error of {len(answer.text)} characters"
    if answer.status in _REFUSED or (answer.status.isdecimal() and 400 <= int(answer.status) < 499):
        return "refused"
    error = from_wire(answer.text)
    if error is not None and error.code in _BUSY_CODES:
        return "busy"
    if answer.is_gateway and answer.status in _BUSY:
        return "busy"
    if answer.status in ("500", "INTERNAL") and _OF_TRITON.match(answer.text):
        return "unreadable"
    return str(answer)


def holds(answer: Answer) -> bool:
    return outcome(answer) in OUTCOMES


def error_in(data: bytes) -> str:
    try:
        body = json.loads(data)
        error = body["err_msg"] if "err_msg" in body else body["error"]
        return str(error["message"] if isinstance(error, dict) else error)
    except (ValueError, KeyError, TypeError, RecursionError):
        return data.decode(errors="replace")


def status_of(code: str, *, is_fault: bool) -> str:
    """Return the status that HTTP has for an error that came without one, by its code."""
    if code in ("overloaded", "no_server", "server_lost", "session_expired"):
        return "503"
    return "500" if is_fault else "400"
