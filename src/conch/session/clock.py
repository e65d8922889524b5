"""Shift live text to the clock of the whole session, which has several streams in a row."""

from collections.abc import Iterable
from dataclasses import replace

from conch.wire.result import OpenUtterance, Segment, Transcript, Unrecognised, Word


def has_last_text(segment: Segment, answer: Transcript) -> bool:
    """Return whether the text of a segment no longer changes.

    With two passes it changes once more. An answer without `rolling` is of a stream with one pass.
    """
    is_passed = segment.passes > 1 or bool(segment.error)
    return is_passed or answer.is_final or answer.rolling is None


def shifted_segment(segment: Segment, seconds: float, indices: int) -> Segment:
    """Return a segment with its times and its index shifted."""
    return replace(
        segment,
        start=_later(segment.start, seconds),
        end=_later(segment.end, seconds),
        words=_shifted(segment.words, seconds),
        unrecognised=tuple(
            Unrecognised(_later(item.start, seconds), _later(item.end, seconds), item.heard)
            for item in segment.unrecognised
        ),
        index=segment.index + indices,
    )


def shifted_utterance(utterance: OpenUtterance, seconds: float) -> OpenUtterance:
    """Return an open utterance with its times shifted."""
    heard_until = utterance.heard_until
    return OpenUtterance(
        start=_later(utterance.start, seconds),
        firm=_shifted(utterance.firm, seconds),
        tentative=_shifted(utterance.tentative, seconds),
        newest=_shifted(utterance.newest, seconds),
        heard_until=_later(heard_until, seconds) if heard_until else 0.0,
    )


def _shifted(words: Iterable[Word], seconds: float) -> tuple[Word, ...]:
    return tuple(
        replace(word, start=_later(word.start, seconds), end=_later(word.end, seconds))
        for word in words
    )


def _later(time_s: float, seconds: float) -> float:
    return round(time_s + seconds, 3)
