"""Cut a text into sentences and into parts, as far as somebody asks for them."""

import re
from collections.abc import Iterator
from itertools import chain

LONGEST = 240
"""Most characters of a sentence; a longer one is cut behind a clause, or between words."""
LONGEST_FIRST = 100
"""The same of a text's first sentence: the first sound waits for it."""
PART = 1500
"""Characters after which a part ends with its sentence."""

_QUOTES = "\"'”\u2019)\\]"
_END = re.compile(
    rf"(?<![.!?…])[.!?…]+[{_QUOTES}]*\s+|[。\uff01\uff1f]+[{_QUOTES}」』]*\s*|(?<!\s)\s*\n\s*"
)
"""Looked for at the begin of a run alone: elsewhere a long one would be walked for each of its
characters."""
_CLAUSE = re.compile(rf"[,;:—\u2013][{_QUOTES}]*\s+|\s+[—\u2013-]\s+")
_SPACE = re.compile(r"\s+")
_LONE = re.compile(
    r"(?:^|[\s(\"'“\u2018])(?:[A-Z]|Mrs?|Ms|Dr|Prof|St|Jr|Sr|Gen|Col|Capt|Lt|Rev|vs|No)$"
)
"""What a full stop behind it does not end: initials and titles."""


def sentences(text: str, longest: int = LONGEST, first: int = LONGEST_FIRST) -> Iterator[slice]:
    """Yield where the sentences of a text are, in order and without the spaces between them.

    Args:
        text: Any text.
        longest: Most characters of one.
        first: The same of the first one.
    """
    start = 0
    for end in chain(_ends(text), [len(text)]):
        while start < end:
            piece = slice(start, _cut(text, start, end, first))
            start = piece.stop
            if text[piece].strip():
                first = longest
                yield _stripped(text, piece)


def parts(text: str, longest: int = PART) -> Iterator[str]:
    """Yield parts of a text, all of it, in order: each ends with a sentence."""
    start = 0
    for found in sentences(text):
        if found.stop - start >= longest:
            yield text[start : found.stop]
            start = found.stop
    if not start or text[start:].strip():
        yield text[start:]


def halves(text: str, whole: slice) -> tuple[slice, ...]:
    """Return the two halves of a stretch of text, cut between words; itself if it is one word."""
    middle = (whole.start + whole.stop) // 2
    spaces = _SPACE.finditer(text, whole.start, whole.stop)
    cut = min((found.end() for found in spaces), key=lambda place: abs(place - middle), default=0)
    if not whole.start < cut < whole.stop:
        return (whole,)
    return _stripped(text, slice(whole.start, cut)), slice(cut, whole.stop)


def _ends(text: str) -> Iterator[int]:
    """Yield the ends of sentences, with the spaces behind them."""
    for found in _END.finditer(text):
        is_full_stop = found[0].startswith(".") and not found[0].startswith("..")
        if "\n" not in found[0] and is_full_stop:
            before = text[max(0, found.start() - 8) : found.start()]
            if _LONE.search(before) or text[found.end() : found.end() + 1].islower():
                continue
        yield found.end()


def _cut(text: str, start: int, end: int, longest: int) -> int:
    """Return the end of the first piece of a sentence, of at most `longest` characters."""
    if end - start <= longest:
        return end
    for pattern in (_CLAUSE, _SPACE):
        found = [item.end() for item in pattern.finditer(text, start, start + longest)]
        if found and found[-1] - start > longest // 4:
            return found[-1]
    return start + longest


def _stripped(text: str, piece: slice) -> slice:
    found = text[piece]
    start = piece.start + len(found) - len(found.lstrip())
    return slice(start, start + len(found.strip()))
