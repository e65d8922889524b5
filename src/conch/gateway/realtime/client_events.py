"""The events that a client of a realtime session sends."""

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from conch.gateway.errors import ApiError

MAX_AUDIO_BYTES = 15 * 2**20
"""Largest audio of one event, as at OpenAI."""
APPEND, COMMIT, CLEAR = (f"input_audio_buffer.{name}" for name in ("append", "commit", "clear"))
UPDATE = "session.update"
BETA_UPDATE = "transcription_session.update"

_KNOWN = (UPDATE, BETA_UPDATE, APPEND, COMMIT, CLEAR)


@dataclass(frozen=True, slots=True)
class ClientEvent:
    """An event of a client."""

    type: str
    """One of those that a transcription session knows."""
    fields: Mapping[str, Any]

    @property
    def audio(self) -> bytes:
        """Return the audio of an append.

        Raises:
            ApiError: there is none, it is not base64, or too much.
        """
        sent = self.fields.get("audio")
        if not isinstance(sent, str):
            raise _wrong("audio", f"audio takes base64 in a text; sent: {sent!r:.80}")
        try:
            audio = base64.b64decode(sent, validate=True)
        except (binascii.Error, ValueError) as error:
            message = f"audio takes base64, with padding and without line breaks: {error}"
            raise _wrong("audio", message) from None
        if len(audio) > MAX_AUDIO_BYTES:
            raise _wrong(
                "audio", f"audio takes at most {MAX_AUDIO_BYTES} bytes; sent: {len(audio)}"
            )
        return audio


def event_id_in(text: str) -> str | None:
    """Return the id that a client has given an event, None for none."""
    try:
        event = json.loads(text)
    except (ValueError, RecursionError):
        return None
    event_id = event.get("event_id") if isinstance(event, dict) else None
    return event_id if isinstance(event_id, str) else None


def read_event(text: str) -> ClientEvent:
    """Return the event of a text frame.

    Raises:
        ApiError: it is no event that a transcription session knows.
    """
    try:
        event = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ApiError(400, f"an event is JSON: {error}", code="invalid_json") from None
    kind = event.get("type") if isinstance(event, dict) else None
    if not isinstance(kind, str):
        raise _wrong("type", f"an event is an object with a type; sent: {text!r:.80}")
    if kind not in _KNOWN:
        message = f"a transcription session takes {', '.join(_KNOWN)}; sent: {kind!r:.80}"
        raise ApiError(400, message, param="type", code="unknown_event")
    return ClientEvent(kind, event)


def _wrong(param: str, message: str) -> ApiError:
    return ApiError(400, message, param=param, code="invalid_value")
