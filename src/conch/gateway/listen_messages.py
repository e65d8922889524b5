"""The messages of `GET /v1/conch/listen`: from updates of a live session to JSON objects."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, TypeAlias

from conch.gateway.live_segments import LiveSegment
from conch.gateway.live_session import LiveUpdate
from conch.session.answers import SummedCalls, joined_answers
from conch.session.resume_state import ResumePoint
from conch.wire.joining import joined_text
from conch.wire.result import (
    OpenUtterance,
    Transcript,
    Turn,
    TurnEvent,
    Word,
    text_of_words,
)

Message: TypeAlias = Mapping[str, Any]

RESUME_STEP_S = 0.5
"""Least seconds of audio that a client no longer has to keep to get a message."""
MAX_END_TEXT = 100_000
"""Longest text of the last message in characters: two hours of speech, so that a session of a day
takes no more than one of two hours."""

MAX_RELABELLED = 1000
"""Most stretches of the last message that have another speaker."""
_NOTHING = ("", "", "")
"""`_parts_of` no text."""


class ListenMessages:
    """The messages after each update, and the latest text of the session."""

    def __init__(self, *, has_stats: bool, has_resume: bool = False) -> None:
        """Begin without text; `has_resume` is for clients that may go on in another session."""
        self._has_resume, self._cut = has_resume, ResumePoint(0.0)
        self._calls = SummedCalls() if has_stats else None
        self._shown: tuple[Any, ...] = _NOTHING
        """Parts of the open utterance that were sent last, and the speakers of its words."""
        self._final: dict[int, str] = {}
        """Texts of the latest utterances that have ended, by index."""
        self._relabelled: deque[Turn] = deque(maxlen=MAX_RELABELLED)
        self.audio_s = 0.0
        """Seconds of audio recognised so far."""

    def after(self, update: LiveUpdate) -> Iterator[Message]:
        self.audio_s = update.audio_s
        self._relabelled += update.transcript.relabelled
        for item in update.news:
            if isinstance(item, TurnEvent):
                yield event_message(item, update.text_of(item.index))
                continue
            self._final[item.segment.index] = item.segment.text
            while sum(len(text) + 1 for text in self._final.values()) > MAX_END_TEXT:
                del self._final[min(self._final)]
            yield segment_message(item)
            self._shown = _NOTHING
        spoken = update.utterance or OpenUtterance(update.audio_s)
        shown = (*_parts_of(spoken), *(word.speaker for word in _labelled(spoken)))
        if shown != self._shown:
            self._shown = shown
            yield text_message(spoken, update)
        if self._calls is not None and (update.transcript.stages or update.transcript.path):
            self._calls.add(update.transcript)
            yield stats_message(update, self._calls)
        if self._has_resume and update.cut is not None:
            yield from self._resume(update.cut, has_ended=bool(update.segments))
        if update.finalized:
            yield {"type": "finalized"}

    def _resume(self, cut: ResumePoint, *, has_ended: bool) -> Iterator[Message]:
        """Yield from where to continue, if it has changed enough."""
        before = self._cut
        # A word of an utterance that has ended would be sent twice.
        step_s = 0.0 if has_ended else RESUME_STEP_S
        if cut.until_s > before.until_s or cut.at_s > before.at_s + step_s:
            self._cut = cut
            until_s = max(cut.at_s, cut.until_s)
            yield {"type": "resume", "from": round(cut.at_s, 3), "told": round(until_s, 3)}

    def end(self) -> Message:
        texts = (self._final[index] for index in sorted(self._final))
        text = joined_text(texts)
        turns = [asdict(turn) for turn in self._relabelled]
        more = {"relabelled": turns} if turns else {}
        return {"type": "end", "text": text, "duration": round(self.audio_s, 3), **more}


def stats_message(update: LiveUpdate, calls: SummedCalls) -> Message:
    rolling = update.transcript.rolling
    return {
        "type": "stats",
        "audio_s": update.audio_s,
        "path": list(calls.path),
        "stages": {
            name: {"calls": stage.calls, "ms": round(stage.ms, 3)}
            for name, stage in calls.stages.items()
        },
        "rolling": None if rolling is None else asdict(rolling),
    }


def _parts_of(spoken: OpenUtterance) -> tuple[str, ...]:
    return tuple(map(text_of_words, (spoken.firm, spoken.tentative, spoken.newest)))


def text_message(spoken: OpenUtterance, update: LiveUpdate) -> Message:
    """Return the message of the utterance that is being spoken; it may be empty."""
    firm, tentative, newest = _parts_of(spoken)
    words = [_word_message(word) for word in _labelled(spoken)]
    return {
        "type": "text",
        "index": update.index,
        "start": spoken.start,
        "firm": firm,
        "tentative": tentative,
        "newest": newest,
        "text": spoken.text,
        "audio_s": update.audio_s,
        **({"words": words} if words else {}),
    }


def event_message(event: TurnEvent, text: str) -> Message:
    """Return the message of a turn event; a probable end has the `text` of the turn so far."""
    is_end = event.type == "eager_end"
    more = {"probability": event.probability, "text": text} if is_end else {}
    return {"type": event.type, "index": event.index, "at": event.at, **more}


def segment_message(item: LiveSegment) -> Message:
    segment = item.segment
    return {
        "type": "segment",
        "index": segment.index,
        "start": segment.start,
        "end": segment.end,
        "text": segment.text,
        "final": item.is_final,
        "endpoint": segment.endpoint,
        "words": [_word_message(word) for word in segment.words],
        **{
            name: value
            for name in ("speaker", "error", "error_code")
            if (value := getattr(segment, name))
        },
    }


class FrameAnswers:
    """Gives each frame one transcript; it has the segments and calls of keep-alives before it."""

    def __init__(self) -> None:
        self._held: list[Transcript] = []

    def after(self, update: LiveUpdate) -> Transcript | None:
        """Return the transcript to send after an update, if it answers a frame or is the last."""
        answer = joined_answers([*self._held, update.transcript])
        self._held = [answer] if update.is_keep_alive else []
        return None if update.is_keep_alive else answer


def _labelled(spoken: OpenUtterance) -> Sequence[Word]:
    """Return the words of an utterance if some have a speaker."""
    return spoken.words if any(word.speaker for word in spoken.words) else ()


def _word_message(word: Word) -> Message:
    names = ("text", "start", "end", "confidence", *(["speaker"] if word.speaker else []))
    return {name: getattr(word, name) for name in names}
