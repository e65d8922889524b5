"""Follow a text through changes of it, and take the times of its words along; pure functions.

A text step returns a new text and spans: which characters of the old text have become which
characters of the new one. Outside of the spans both texts are equal.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from conch.component import Array, TextEdit, changed
from conch.wire.replacements import Replacements, findable
from conch.wire.result import Word

MAX_CHANGES = 2000
"""Spans of an answer: several for each word of a segment."""
_RUN = re.compile(r"\S+")


class Change(NamedTuple):
    """A stretch of the old text and what it is in the new one, in Unicode characters."""

    start: int
    end: int
    new_start: int
    new_end: int


@dataclass(frozen=True, slots=True)
class Rewritten:
    text: str
    changes: tuple[Change, ...] = ()


def rewritten(old: str, new: str, spans: Array) -> Rewritten:
    """Return a step's answer, checked: spans are in order and inside, both texts equal elsewhere.

    `spans` are integers [changes, 4]: start and end in the old text, start and end in the new one.
    A ValueError says what is wrong.
    """
    if spans.ndim != 2 or spans.shape[1] != 4 or not np.issubdtype(spans.dtype, np.integer):
        raise ValueError(f"spans are integers [-1, 4]; they are {spans.dtype} {list(spans.shape)}")
    if len(spans) > MAX_CHANGES:
        raise ValueError(f"a text takes at most {MAX_CHANGES} spans; has: {len(spans)}")
    changes = tuple(Change(*row) for row in spans.tolist())
    at = new_at = 0
    for change in (*changes, Change(len(old), len(old), len(new), len(new))):
        start, end, new_start, new_end = change
        if not (at <= start <= end <= len(old) and new_at <= new_start <= new_end <= len(new)):
            raise ValueError(
                f"span {list(change)} is not in order, or outside of the texts of {len(old)} and "
                f"{len(new)} characters"
            )
        if old[at:start] != new[new_at:new_start]:
            raise ValueError(
                f"characters {at} to {start} of the text that was sent are not {new_at} to "
                f"{new_start} of the new one, and no span says so"
            )
        at, new_at = end, new_end
    return Rewritten(new, changes)


def replaced(text: str, rules: Replacements) -> Rewritten:
    """Return a text after the rules of the option `replace`.

    Heard forms are found whatever their case, from left to right, the longest first. What a rule
    has written is not read again. A form that becomes nothing takes the space before it along.
    """
    new, spans = changed(text, _replacements(text, rules))
    return Rewritten(new, tuple(Change(*span) for span in spans))


def _replacements(text: str, rules: Replacements) -> Iterator[TextEdit]:
    at = 0
    for match in rules.pattern.finditer(findable(text)):
        start, end = match.span()
        assert match.lastindex is not None
        new = rules.written[match.lastindex - 1]
        if not new:
            start, end = _with_space(text, at, start, end)
        if text[start:end] != new:
            yield TextEdit(start, end, new)
            at = end


def _with_space(text: str, least: int, start: int, end: int) -> tuple[int, int]:
    """Return a stretch to delete together with the space on one side of it."""
    before = least + len(text[least:start].rstrip())
    return before, end if before else len(text) - len(text[end:].lstrip())


def retimed(words: Sequence[Word], text: str, after: Rewritten) -> tuple[Word, ...]:
    """Return the words of a text after a step, with the times of what they have come from.

    Words that become one last from the start of the first to the end of the last, with the least
    confidence. Words that one word becomes share its time by their length. A new word fills the gap
    between its neighbours, with the lesser of their confidences. Where no word of the old text is
    left, it has the time of all. Words are those between spaces, cut further where words of the old
    text touch, as in Chinese.
    """
    if not after.changes or not words:
        return tuple(words)
    positions = _positions(words, text)
    pieces = _pieces(text, after)
    new_words: list[Word | str] = []
    for start, end in _bounds(positions, text, after):
        old_start, old_end = _origin(start, end, pieces)
        touched = _touched(positions, old_start, old_end)
        word = after.text[start:end]
        if not touched:
            new_words.append(word)
            continue
        first, last = touched[0], touched[-1]
        if len(touched) == 1 and first.start >= old_start and first.end <= old_end:
            new_words.append(replace(first.word, text=word))
            continue
        begins, ends = _time_at(first, old_start), _time_at(last, old_end)
        least = min(position.word.confidence for position in touched)
        new_words.append(Word(word, begins, max(begins, ends), least))
    return tuple(_with_inserted(new_words, words))


class _WordPosition(NamedTuple):
    start: int
    end: int
    word: Word


def _positions(words: Sequence[Word], text: str) -> list[_WordPosition]:
    """Return where the words are in their text, in order, without those that are not there."""
    positions, at = [], 0
    for word in words:
        start = text.find(word.text, at)
        if word.text and start >= 0 and not text[at:start].strip():
            at = start + len(word.text)
            positions.append(_WordPosition(start, at, word))
    return positions


def _pieces(text: str, after: Rewritten) -> list[Change]:
    """Return the stretches that both texts have, equal and changed ones, in order."""
    pieces = []
    at = new_at = 0
    for change in (*after.changes, Change(len(text), len(text), len(after.text), len(after.text))):
        pieces += [Change(at, change.start, new_at, change.new_start), change]
        at, new_at = change.end, change.new_end
    return [item for item in pieces if item.start < item.end and item.new_start < item.new_end]


def _bounds(
    positions: Sequence[_WordPosition], text: str, after: Rewritten
) -> Iterator[tuple[int, int]]:
    starts = [item.start for item in positions if item.start and not text[item.start - 1].isspace()]
    cuts = sorted({_moved(start, after.changes) for start in starts})
    for run in _RUN.finditer(after.text):
        inside = cuts[bisect_right(cuts, run.start()) : bisect_left(cuts, run.end())]
        yield from pairwise((run.start(), *inside, run.end()))


def _moved(at: int, changes: Sequence[Change]) -> int:
    """Return where a position of the old text is in the new one, -1 if a change has swallowed it.

    What was put in front of it belongs to what comes before: punctuation, most of all.
    """
    index = bisect_right(changes, at, key=lambda change: change.end)
    before = changes[index - 1] if index else Change(0, 0, 0, 0)
    if index < len(changes) and (change := changes[index]).start <= at:
        return change.new_start if change.start == at else -1
    return at - before.end + before.new_end


def _origin(start: int, end: int, pieces: Sequence[Change]) -> tuple[float, float]:
    """Return which stretch of the old text has become a stretch of the new one.

    Of a change that reaches beyond the stretch, it is a share by length. Positions are fractions
    then. An empty stretch is what comes from nothing.
    """
    first = bisect_right(pieces, start, key=lambda piece: piece.new_end)
    last = bisect_left(pieces, end, key=lambda piece: piece.new_start) - 1
    if first > last:
        return 0.0, 0.0
    return _old_position(start, pieces[first]), _old_position(end, pieces[last])


def _old_position(at: int, piece: Change) -> float:
    """Return where a position of the new text was in the old one, at most at a piece's edges."""
    share = (at - piece.new_start) / (piece.new_end - piece.new_start)
    return piece.start + min(1.0, max(0.0, share)) * (piece.end - piece.start)


def _touched(
    positions: Sequence[_WordPosition], start: float, end: float
) -> Sequence[_WordPosition]:
    first = bisect_right(positions, start, key=lambda position: position.end)
    return positions[first : bisect_left(positions, end, key=lambda position: position.start)]


def _time_at(position: _WordPosition, at: float) -> float:
    """Return the time of a position in or near a word, as if its characters were equally long."""
    share = min(1.0, max(0.0, (at - position.start) / (position.end - position.start)))
    return round(position.word.start + share * (position.word.end - position.word.start), 3)


def _with_inserted(new_words: Sequence[Word | str], words: Sequence[Word]) -> Iterator[Word]:
    """Yield the words found; those that come from nothing get the time between their neighbours."""
    before: Word | None = None
    inserted: list[str] = []
    for item in (*new_words, None):
        if isinstance(item, str):
            inserted.append(item)
            continue
        yield from _between(inserted, before, item, words)
        inserted = []
        if item is not None:
            yield item
            before = item


def _between(
    texts: Sequence[str], before: Word | None, behind: Word | None, words: Sequence[Word]
) -> Iterator[Word]:
    if not texts or not words:
        return
    start = before.end if before else behind.start if behind else words[0].start
    end = behind.start if behind else before.end if before else words[-1].end
    around = [word for word in (before, behind) if word] or words
    least = min(word.confidence for word in around)
    edges = np.linspace(start, max(start, end), len(texts) + 1).round(3).tolist()
    for text, begins, ends in zip(texts, edges[:-1], edges[1:], strict=True):
        yield Word(text, begins, ends, least)
