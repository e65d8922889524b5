"""Follow a text through changes of it, and take the times of its words along; pure functions.

A text step returns a new text and spans: which characters of the old text have become which
characters of the new one. Outside of the spans both texts are equal.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from conch.component import Array
from conch.wire.replacements import Replacements
from conch.wire.result import Word

MAX_CHANGES = 2000
"""Spans of an answer: several for each word that anybody says in a segment."""


class Change(NamedTuple):
    """A stretch of a text that was replaced; positions are in Unicode characters."""

    start: int
    """In the old text."""
    end: int
    """In the old text."""
    new_start: int
    """In the new text."""
    new_end: int
    """In the new text."""


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A text after a step."""

    text: str
    """The new text."""
    changes: tuple[Change, ...] = ()
    """What has changed, in order."""


def rewritten(old: str, new: str, spans: Array) -> Rewritten:
    """Return a step's answer if it is one: spans in order and inside, both texts equal elsewhere.

    Args:
        old: The text that was sent.
        new: The text that was returned.
        spans: Integers [changes, 4]: start and end in the old text, start and end in the new one.

    Raises:
        ValueError: it is none; the message says why.
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
            raise ValueError(f"before span {list(change)} the texts differ, and no span says so")
        at, new_at = end, new_end
    return Rewritten(new, changes)


def replaced(text: str, rules: Replacements) -> Rewritten:
    """Return a text after the rules of the option `replace`.

    Heard forms are found whatever their case, from left to right, the longest first. What a rule
    has written is not read again. A form that becomes nothing takes the space before it along.

    Args:
        text: The text.
        rules: The rules.
    """
    pieces: list[str] = []
    changes: list[Change] = []
    at = length = 0
    for found in rules.pattern.finditer(text):
        start, end = found.span()
        assert found.lastindex is not None
        new = rules.written[found.lastindex - 1]
        if not new:
            start, end = _with_space(text, at, start, end)
        if text[start:end] == new:
            continue
        pieces += [text[at:start], new]
        length += start - at
        changes.append(Change(start, end, length, length + len(new)))
        length, at = length + len(new), end
    return Rewritten("".join([*pieces, text[at:]]), tuple(changes))


def _with_space(text: str, least: int, start: int, end: int) -> tuple[int, int]:
    """Return a stretch to delete together with the space on one side of it."""
    before = start
    while before > least and text[before - 1].isspace():
        before -= 1
    if before:
        return before, end
    while end < len(text) and text[end].isspace():
        end += 1
    return before, end


def retimed(words: Sequence[Word], text: str, after: Rewritten) -> tuple[Word, ...]:
    """Return the words of a text after a step, with the times of what they have come from.

    Words that become one last from the start of the first to the end of the last, and the least
    of their confidences counts. Words that one word becomes share its time by their length. A word
    that comes from nothing fills the gap between its neighbours, with the lesser of their
    confidences; where no word of the old text is left, it has the time of all. The words are those
    between spaces, cut further where words of the old text touch, as in Chinese.

    Args:
        words: Words of the old text, in order.
        text: The old text.
        after: The text after the step.
    """
    if not after.changes:
        return tuple(words)
    places = _places(words, text)
    found: list[Word | str] = []
    for start, end in _bounds(places, text, after):
        old_start, old_end = _origin(start, end, after.changes)
        first, last = _touched(places, old_start, old_end)
        word = after.text[start:end]
        if first > last:
            found.append(word)
            continue
        if first == last and _is_whole(places[first], old_start, old_end):
            found.append(replace(words[first], text=word))
            continue
        begins = _time_at(words[first], places[first], old_start)
        ends = _time_at(words[last], places[last], old_end)
        least = min(item.confidence for item in words[first : last + 1])
        found.append(Word(word, begins, max(begins, ends), least))
    return tuple(_with_inserted(found, words))


def _places(words: Sequence[Word], text: str) -> list[tuple[int, int]]:
    """Return where the words are in their text; an empty place for one that is not there."""
    places, at = [], 0
    for word in words:
        start = text.find(word.text, at)
        if start < 0 or text[at:start].strip():
            places.append((at, at))
            continue
        at = start + len(word.text)
        places.append((start, at))
    return places


def _bounds(
    places: Sequence[tuple[int, int]], text: str, after: Rewritten
) -> Iterator[tuple[int, int]]:
    """Yield start and end of each word in the new text."""
    starts = [start for start, end in places if 0 < start < end and not text[start - 1].isspace()]
    cuts = {_moved(start, after.changes) for start in starts}
    begun: int | None = None
    for at, char in enumerate(after.text):
        if begun is not None and (char.isspace() or at in cuts):
            yield begun, at
            begun = None
        if begun is None and not char.isspace():
            begun = at
    if begun is not None:
        yield begun, len(after.text)


def _moved(at: int, changes: Sequence[Change]) -> int:
    """Return where a position of the old text is in the new one, -1 if a change has swallowed it.

    What was put in front of it belongs to what comes before: punctuation, most of all.
    """
    moved = at
    for start, end, new_start, new_end in changes:
        if end <= at:
            moved = at - end + new_end
        elif start < at:
            return -1
        else:
            return new_start if start == at else moved
    return moved


def _origin(start: int, end: int, changes: Sequence[Change]) -> tuple[float, float]:
    """Return which stretch of the old text has become a stretch of the new one.

    Of a change that reaches beyond the stretch, it is a share by length. Positions are fractions
    then. An empty stretch is what comes from nothing.
    """
    pieces: list[tuple[float, float]] = []
    at = old_at = 0
    for change in (*changes, None):
        # What is equal, up to the change.
        until = change.new_start if change else end
        low, high = max(start, at), min(end, until)
        if low < high:
            pieces.append((old_at + low - at, old_at + high - at))
        if change is None:
            break
        size = change.new_end - change.new_start
        low, high = max(start, change.new_start), min(end, change.new_end)
        if low < high and change.start < change.end:
            share = (change.end - change.start) / size
            pieces.append(
                (
                    change.start + share * (low - change.new_start),
                    change.start + share * (high - change.new_start),
                )
            )
        at, old_at = change.new_end, change.end
    if not pieces:
        return 0.0, 0.0
    return pieces[0][0], pieces[-1][1]


def _touched(places: Sequence[tuple[int, int]], start: float, end: float) -> tuple[int, int]:
    """Return the first and the last word that a stretch shares characters with."""
    touched = [
        index for index, place in enumerate(places) if max(start, place[0]) < min(end, place[1])
    ]
    return (touched[0], touched[-1]) if touched else (0, -1)


def _is_whole(place: tuple[int, int], start: float, end: float) -> bool:
    return start <= place[0] and place[1] <= end


def _time_at(word: Word, place: tuple[int, int], at: float) -> float:
    """Return the time of a position in or beside a word, as if its characters were equally long."""
    share = min(1.0, max(0.0, (at - place[0]) / (place[1] - place[0])))
    return round(word.start + share * (word.end - word.start), 3)


def _with_inserted(found: Sequence[Word | str], words: Sequence[Word]) -> Iterator[Word]:
    """Yield the words found; those that come from nothing get the time between their neighbours."""
    before: Word | None = None
    inserted: list[str] = []
    for item in (*found, None):
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
