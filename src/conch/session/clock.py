"""Shift live text to the clock of the whole session, which has several streams in a row."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from conch.wire.result import OpenUtterance, Segment, Transcript, Turn, Unrecognised, Word


def has_last_text(segment: Segment, answer: Transcript) -> bool:
    """Return whether the text of a segment no longer changes.

    With two passes it changes once more. An answer without `rolling` is of a stream with one pass.
    """
    is_passed = segment.passes > 1 or bool(segment.error)
    return is_passed or answer.is_final or answer.rolling is None


def shifted_segment(segment: Segment, seconds: float, indices: int, stream: int = 1) -> Segment:
    """Return a segment with its times and its index shifted.

    Its speakers are those of the stream with this number: A of the second one is A2, as it may be
    another voice.
    """
    return replace(
        segment,
        start=_later(segment.start, seconds),
        end=_later(segment.end, seconds),
        words=_shifted(segment.words, seconds, stream),
        unrecognised=tuple(
            Unrecognised(_later(item.start, seconds), _later(item.end, seconds), item.heard)
            for item in segment.unrecognised
        ),
        index=segment.index + indices,
        speaker=_of_stream(segment.speaker, stream),
    )


def shifted_turns(turns: Iterable[Turn], seconds: float, stream: int) -> tuple[Turn, ...]:
    """Return turns with their times shifted; see `shifted_segment`."""
    return tuple(
        Turn(
            _of_stream(turn.speaker, stream),
            *(_later(at, seconds) for at in (turn.start, turn.end)),
        )
        for turn in turns
    )


def shifted_utterance(utterance: OpenUtterance, seconds: float, stream: int = 1) -> OpenUtterance:
    """Return an open utterance with its times shifted; see `shifted_segment`."""
    heard_until = utterance.heard_until
    return OpenUtterance(
        start=_later(utterance.start, seconds),
        firm=_shifted(utterance.firm, seconds, stream),
        tentative=_shifted(utterance.tentative, seconds, stream),
        newest=_shifted(utterance.newest, seconds, stream),
        heard_until=_later(heard_until, seconds) if heard_until else 0.0,
    )


def _shifted(words: Iterable[Word], seconds: float, stream: int) -> tuple[Word, ...]:
    return tuple(
        replace(
            word,
            start=_later(word.start, seconds),
            end=_later(word.end, seconds),
            speaker=_of_stream(word.speaker, stream) if word.speaker else word.speaker,
        )
        for word in words
    )


def _of_stream(speaker: Any, stream: int) -> str:
    return f"{speaker}{stream}" if speaker and stream > 1 else speaker


def _later(time_s: float, seconds: float) -> float:
    return round(time_s + seconds, 3)
