"""The events that a client of a realtime session sends."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from conch.gateway.errors import ApiError, invalid
from conch.gateway.reading import read_json
from conch.wire.base64_text import bytes_of

MAX_AUDIO_BYTES = 15 * 2**20
"""Largest audio of one event, as at OpenAI."""
APPEND, COMMIT, CLEAR = (f"input_audio_buffer.{name}" for name in ("append", "commit", "clear"))
UPDATE = "session.update"
BETA_UPDATE = "transcription_session.update"

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
"""Escape of a half of a character."""
_KNOWN = (UPDATE, BETA_UPDATE, APPEND, COMMIT, CLEAR)


@dataclass(frozen=True, slots=True)
class ClientEvent:
    """An event of a client. Its properties raise an ApiError if their field is wrong."""

    fields: Mapping[str, Any]

    @property
    def id(self) -> str | None:
        event_id = self.fields.get("event_id")
        return event_id if isinstance(event_id, str) else None

    @property
    def type(self) -> str:
        """The type of the event, one that a transcription session takes."""
        kind = self.fields.get("type")
        if not isinstance(kind, str):
            raise invalid("type", f"an event is an object with a type; sent: {kind!r:.80}")
        if kind not in _KNOWN:
            message = f"a transcription session takes {', '.join(_KNOWN)}; sent: {kind!r:.80}"
            raise ApiError(400, message, param="type", code="unknown_event")
        return kind

    @property
    def audio(self) -> bytes:
        sent = self.fields.get("audio")
        try:
            return bytes_of(sent, MAX_AUDIO_BYTES)
        except ValueError as error:
            raise invalid("audio", f"audio: {error}; sent: {sent!r:.40}") from None


def read_event(data: str | bytes) -> ClientEvent:
    """Return the event of a frame; raise an ApiError if it is none."""
    if isinstance(data, bytes):
        message = f"an event is a text frame; audio goes as base64 in {APPEND}"
        raise ApiError(400, message, code="invalid_frame")
    try:
        event = parse_json(data)
    except ValueError as error:
        raise ApiError(400, f"an event is JSON: {error}", code="invalid_json") from None
    if not isinstance(event, dict):
        raise invalid("type", f"an event is an object with a type; sent: {data!r:.80}")
    return ClientEvent(event)


def parse_json(text: str) -> Any:
    """Return the value of a JSON text.

    Raise a ValueError as `read_json`, or for half a surrogate pair, which no answer can repeat.
    """
    value = read_json(text)
    if _SURROGATE.search(text):
        json.dumps(value, ensure_ascii=False).encode()
    return value
