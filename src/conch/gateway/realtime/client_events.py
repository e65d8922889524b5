"""The events that a client of a realtime session sends."""

import base64
import binascii
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from conch.gateway.errors import ApiError
from conch.gateway.json_text import read_json

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
    """An event of a client."""

    fields: Mapping[str, Any]

    @property
    def id(self) -> str | None:
        """Return the client's own id of it."""
        event_id = self.fields.get("event_id")
        return event_id if isinstance(event_id, str) else None

    @property
    def type(self) -> str:
        """Return its type, which is one that a transcription session takes.

        Raises:
            ApiError: it is another one.
        """
        kind = self.fields.get("type")
        if not isinstance(kind, str):
            raise _wrong("type", f"an event is an object with a type; sent: {kind!r:.80}")
        if kind not in _KNOWN:
            message = f"a transcription session takes {', '.join(_KNOWN)}; sent: {kind!r:.80}"
            raise ApiError(400, message, param="type", code="unknown_event")
        return kind

    @property
    def num_audio_bytes(self) -> int:
        """Return the size of the audio of an append without decoding it.

        Raises:
            ApiError: there is none, or too much.
        """
        sent = self._base64
        size = len(sent) // 4 * 3 - sent[-2:].count("=")
        if size > MAX_AUDIO_BYTES:
            raise _wrong("audio", f"audio takes at most {MAX_AUDIO_BYTES} bytes; sent: {size}")
        return size

    @property
    def audio(self) -> bytes:
        """Return the audio of an append.

        Raises:
            ApiError: there is none, or it is not base64.
        """
        try:
            return base64.b64decode(self._base64, validate=True)
        except (binascii.Error, ValueError) as error:
            message = f"audio takes base64, with padding and without line breaks: {error}"
            raise _wrong("audio", message) from None

    @property
    def _base64(self) -> str:
        sent = self.fields.get("audio")
        if not isinstance(sent, str):
            raise _wrong("audio", f"audio takes base64 in a text; sent: {sent!r:.80}")
        return sent


def read_event(data: str | bytes) -> ClientEvent:
    """Return the event of a frame.

    Raises:
        ApiError: it is no event.
    """
    if isinstance(data, bytes):
        message = f"an event is a text frame; audio goes as base64 in {APPEND}"
        raise ApiError(400, message, code="invalid_frame")
    try:
        event = parse_json(data)
    except ValueError as error:
        raise ApiError(400, f"an event is JSON: {error}", code="invalid_json") from None
    if not isinstance(event, dict):
        raise _wrong("type", f"an event is an object with a type; sent: {data!r:.80}")
    return ClientEvent(event)


def parse_json(text: str) -> Any:
    """Return the value of a JSON text.

    Raises:
        ValueError: see `read_json`; or it has half of a surrogate pair, which no answer can repeat.
    """
    value = read_json(text)
    if _SURROGATE.search(text):
        json.dumps(value, ensure_ascii=False).encode()
    return value


def _wrong(param: str, message: str) -> ApiError:
    return ApiError(400, message, param=param, code="invalid_value")
