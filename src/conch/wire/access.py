"""The access log: what became of each recording, live stream and request of a gateway.

A line's fields go with its log record, as the attribute `access`. Models log through Triton, which
takes text alone: there the line is `access {…}`, with the fields as JSON.
"""

import json
import logging
import re
import secrets
from collections.abc import Mapping
from typing import Any, TypeAlias

LOGGER = logging.getLogger("conch.access")

Fields: TypeAlias = Mapping[str, Any]
"""Values by name: those of `conch.bls.service`, or of `conch.gateway.app`."""

SAFE_ID = re.compile(r"[\w.:/+=@-]{1,128}", re.ASCII)
"""Ids of requests that clients may choose, as logs repeat them."""
MAX_ERROR = 300
"""Most characters of an error's message in a line: some messages quote what was sent."""

_PREFIX = "access "
_UNSAFE = re.compile(r"[^\w.:/+=@-]", re.ASCII)


def made_id() -> str:
    return f"req_{secrets.token_hex(12)}"


def request_id_of(sent: str) -> str:
    """Return the id that a client chose as far as it is safe in logs; a new one if it is empty."""
    return _UNSAFE.sub("_", sent[:128]) or made_id()


def log_access(fields: Fields, level: int = logging.INFO) -> None:
    """Write a line of the access log, at a level of the logging module."""
    if LOGGER.isEnabledFor(level):
        LOGGER.log(level, "%s", short(fields), extra={"access": fields})


def fields_of(record: logging.LogRecord) -> Fields | None:
    """Return the fields of a record of the access log, None for any other record."""
    return getattr(record, "access", None)


def to_line(fields: Fields) -> str:
    """Return the text of a line of the access log for Triton's log."""
    return f"{_PREFIX}{json.dumps(fields)}"


def from_line(text: str) -> Fields | None:
    """Return the fields of a text that `to_line` wrote, None for any other text."""
    if not text.startswith(_PREFIX):
        return None
    try:
        fields: dict[str, Any] = json.loads(text.removeprefix(_PREFIX))
        # Another model may write what only begins alike, and every line has to be shown.
        short(fields)
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
    return fields if "request" in fields else None


def short(fields: Fields) -> str:
    """Return the fields as a line for people: what was asked, what came of it, and how long."""
    what = f"{fields['method']} {fields['route']}" if "route" in fields else fields.get("model", "")
    outcome = fields.get("status", fields.get("outcome", ""))
    parts = [f"{what} {outcome} in {fields.get('ms', 0.0) / 1000:.3f} s"]
    if "mode" in fields:
        parts.append(str(fields["mode"]))
    if "audio_s" in fields:
        parts.append(f"{fields['audio_s']:.1f} s of audio")
    parts += [f"{fields[name]} {name}" for name in ("rows", "chunks") if fields.get(name, 1) != 1]
    if fields.get("path"):
        parts.append(" ".join(fields["path"]))
    if "key" in fields:
        parts.append(f"key {fields['key']}")
    parts.append(f"request {fields.get('request', '')}")
    error = fields.get("error", "")
    return f"{', '.join(parts)}{': ' if error else ''}{error}"
