"""The events of a realtime session, as OpenAI's clients send and read them."""

import json
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from conch.gateway.bodies import read_json
from conch.gateway.errors import ApiError, invalid
from conch.gateway.file_answer import logprobs
from conch.wire.base64_text import bytes_of
from conch.wire.result import Segment, TurnEvent, Word

Event: TypeAlias = dict[str, Any]

TRANSCRIPTION = "conversation.item.input_audio_transcription"
"""Beginning of the types of events with text."""
_BUFFER = "input_audio_buffer"

MAX_AUDIO_BYTES = 15 * 2**20
"""Largest audio of one event, as at OpenAI."""
APPEND, COMMIT, CLEAR = (f"{_BUFFER}.{name}" for name in ("append", "commit", "clear"))
UPDATE = "session.update"
BETA_UPDATE = "transcription_session.update"
_KNOWN = (UPDATE, BETA_UPDATE, APPEND, COMMIT, CLEAR)

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
"""Escape of a half of a character."""


def new_id(prefix: str) -> str:
    """Return an id that nobody can guess, such as `item_…`."""
    return f"{prefix}_{secrets.token_hex(12)}"


def speech_started(item_id: str, start_s: float) -> Event:
    """Return the event of speech that has begun, on the session's clock."""
    return event(f"{_BUFFER}.speech_started", audio_start_ms=round(start_s * 1000), item_id=item_id)


def speech_stopped(item_id: str, end_s: float) -> Event:
    """Return the event of speech that has ended, on the session's clock."""
    return event(f"{_BUFFER}.speech_stopped", audio_end_ms=round(end_s * 1000), item_id=item_id)


def committed(item_id: str, previous_id: str | None, *, is_beta: bool) -> list[Event]:
    """Return the events of audio that has become an item, after the item with `previous_id`."""
    item = {
        "id": item_id,
        "object": "realtime.item",
        "type": "message",
        "status": "completed",
        "role": "user",
        "content": [{"type": "input_audio", "transcript": None}],
    }
    suffixes = ("created",) if is_beta else ("added", "done")
    return [
        event(f"{_BUFFER}.committed", item_id=item_id, previous_item_id=previous_id),
        *(
            event(f"conversation.item.{suffix}", previous_item_id=previous_id, item=dict(item))
            for suffix in suffixes
        ),
    ]


def cleared() -> Event:
    return event(f"{_BUFFER}.cleared")


def delta(item_id: str, text: str) -> Event:
    return _said("delta", item_id, delta=text)


def segment(item_id: str, part: Segment) -> Event:
    """Return the event of what one speaker says, on the session's clock."""
    return _said(
        "segment",
        item_id,
        id=new_id("seg"),
        speaker=part.speaker,
        start=part.start,
        end=part.end,
        text=part.text,
    )


def completed(
    item_id: str, text: str, seconds: float, words: Sequence[Word] | None = None
) -> Event:
    """Return the event of an item's whole text, with the log probabilities of `words`."""
    usage = {"type": "duration", "seconds": round(seconds, 3)}
    more = {} if words is None else {"logprobs": logprobs(words)}
    return _said("completed", item_id, transcript=text, usage=usage, **more)


def failed(item_id: str, error: ApiError) -> Event:
    return _said("failed", item_id, error=error.as_dict())


def _said(kind: str, item_id: str, **fields: Any) -> Event:
    return event(f"{TRANSCRIPTION}.{kind}", item_id=item_id, content_index=0, **fields)


def error_event(error: ApiError, client_event_id: str | None = None) -> Event:
    """Return the event of an error, with the id of the client's event that caused it."""
    return event("error", error={**error.as_dict(), "event_id": client_event_id})


def partial(item_id: str, final: str, firm: str, tentative: str, newest: str) -> Event:
    """Return Conch's own event of the text that is being spoken.

    The text of an item so far is `final` of all its events, and the other three of the latest one,
    joined without spaces.
    """
    parts = {"final": final, "firm": firm, "tentative": tentative, "newest": newest}
    return event("conch.partial", item_id=item_id, **parts)


def turn(item_id: str, told: TurnEvent) -> Event:
    """Return Conch's own event of a turn whose end is probable, or that goes on after all."""
    at_ms = round(told.at * 1000)
    if told.type == "resumed":
        return event("conch.resumed", item_id=item_id, audio_start_ms=at_ms)
    more = {"audio_end_ms": at_ms, "probability": told.probability}
    return event("conch.eager_end", item_id=item_id, **more)


def event(event_type: str, **fields: Any) -> Event:
    return {"type": event_type, "event_id": new_id("event"), **fields}


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
        event_type = self.fields.get("type")
        if not isinstance(event_type, str):
            raise invalid("type", f"an event is an object with a type; sent: {event_type!r:.80}")
        if event_type not in _KNOWN:
            message = f"a transcription session takes {', '.join(_KNOWN)}; sent: {event_type!r:.80}"
            raise ApiError(400, message, param="type", code="unknown_event")
        return event_type

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
        fields = parse_json(data)
    except ValueError as error:
        raise ApiError(400, f"an event is JSON: {error}", code="invalid_json") from None
    if not isinstance(fields, dict):
        raise invalid("type", f"an event is an object with a type; sent: {data!r:.80}")
    return ClientEvent(fields)


def parse_json(text: str) -> Any:
    """Return the value of JSON; half a surrogate pair, which no answer can repeat, is an error."""
    value = read_json(text)
    if _SURROGATE.search(text):
        json.dumps(value, ensure_ascii=False).encode()
    return value
