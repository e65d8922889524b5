"""News of a live session, made by hand."""

from typing import Any

from conch.gateway.live_segments import LiveSegment
from conch.gateway.live_session import LiveUpdate
from conch.wire.result import Hypothesis, OpenUtterance, Segment, Transcript, TurnEvent, Word


def update(
    audio_s: float,
    *segments: LiveSegment,
    spoken: OpenUtterance | None = None,
    events: tuple[TurnEvent, ...] = (),
    index: int = 0,
    **fields: Any,
) -> LiveUpdate:
    nothing = (Hypothesis("", 0.0, 0.0),)
    known = {"transcript": Transcript(nothing, (), audio_s, (), {}, turn_events=events)}
    return LiveUpdate(
        audio_s=audio_s, utterance=spoken, index=index, segments=segments, **{**known, **fields}
    )


def said(
    index: int, end: float, endpoint: str = "silence", *, is_final: bool = True
) -> LiveSegment:
    """Return an utterance of one word, half a second long."""
    text, start = f"word{index}", end - 0.5
    best, words = (Hypothesis(text, 0.0, 0.0),), (Word(text, start, end, 1.0),)
    segment = Segment(start, end, best, words, index=index, endpoint=endpoint)
    return LiveSegment(segment, is_final)
