"""Cut a text into sentences, as far as somebody asks for them, or as it is written."""

import re
from collections.abc import Iterator
from itertools import chain

LONGEST = 240
"""Most characters of a sentence; a longer one is cut behind a clause, or between words."""
LONGEST_FIRST = 100
"""Most characters of a text's first sentence: the first sound waits for it."""
BEFORE = 16
"""Characters before a sentence that its end may depend on."""

_QUOTES = "\"'”\u2019)\\]"
_END = re.compile(
    rf"(?<![.!?…])[.!?…]+[{_QUOTES}]*\s+|[。\uff01\uff1f]+[{_QUOTES}」』]*\s*|(?<!\s)\s*\n\s*"
)
"""Looked for at the begin of a run alone: elsewhere a long one would be walked for each of its
characters."""
_CLAUSE = re.compile(rf"[,;:—\u2013][{_QUOTES}]*\s+|\s+[—\u2013-]\s+")
_SPACE = re.compile(r"\s+")
_LONE = re.compile(
    r"(?:^|[\s(\"'“\u2018.])"
    r"(?:[A-Z]|Mrs?|Ms|Dr|Prof|St|Mt|Jr|Sr|Gen|Sen|Col|Capt|Sgt|Lt|Rev|Fig|vs|No|pp?)$"
)
"""Initials and titles, after which a full stop ends no sentence."""


def sentences(
    text: str,
    longest: int = LONGEST,
    first: int = LONGEST_FIRST,
    *,
    start: int = 0,
    is_open: bool = False,
) -> Iterator[slice]:
    """Yield where the sentences of a text are, in order and without the spaces between them.

    `longest` and `first` are the most characters of one and of the first one, which begins at
    `start`. If text may follow (`is_open`), what it can change is left out.
    """
    ends = ((end, False) for end in _ends(text, start, is_open=is_open))
    for end, is_begun in chain(ends, [(len(text), is_open)]):
        while True:
            if spaces := _SPACE.match(text, start, end):
                start = spaces.end()
            if start == end or (is_begun and end - start <= first):
                break
            piece = slice(start, _cut(text, start, end, first))
            start, first = piece.stop, longest
            yield _stripped(text, piece)


class Phrases:
    """The sentences of a text that is still written, each as soon as no further text changes it.

    However the text is cut, they are the sentences of the whole.
    """

    def __init__(self) -> None:
        self._text, self._start, self._first = "", 0, LONGEST_FIRST

    def added(self, text: str, *, is_last: bool = False) -> list[str]:
        """Add text, and return the sentences that are complete now, with the spaces before them."""
        self._text += text
        complete, stop = [], self._start
        limits = LONGEST, self._first
        for item in sentences(self._text, *limits, start=self._start, is_open=not is_last):
            complete.append(self._text[stop : item.stop])
            stop, self._first = item.stop, LONGEST
        used = stop if self._text[stop:].strip() else len(self._text)
        kept = max(0, used - BEFORE)
        self._text, self._start = self._text[kept:], max(0, stop - kept)
        return complete


def halves(text: str, whole: slice, *, cuts_words: bool = False) -> tuple[slice, ...]:
    """Return the two halves of a stretch of text; one word stays whole unless `cuts_words`."""
    middle = (whole.start + whole.stop) // 2
    spaces = _SPACE.finditer(text, whole.start, whole.stop)
    cut = min((space.end() for space in spaces), key=lambda end: abs(end - middle), default=0)
    if not whole.start < cut < whole.stop:
        cut = middle
        if not cuts_words or cut == whole.start:
            return (whole,)
    return _stripped(text, slice(whole.start, cut)), slice(cut, whole.stop)


def _ends(text: str, start: int, *, is_open: bool) -> Iterator[int]:
    """Yield the ends of sentences, with the spaces behind them."""
    for match in _END.finditer(text, start):
        is_full_stop = match[0].startswith(".") and not match[0].startswith("..")
        if "\n" not in match[0] and is_full_stop:
            before = text[max(0, match.start() - 8) : match.start()]
            if _LONE.search(before) or text[match.end() : match.end() + 1].islower():
                continue
            if is_open and match.end() == len(text):
                return
        # Another of these marks, or a quote, may follow.
        if is_open and match.end() == len(text) and not match[0][-1].isspace():
            return
        yield match.end()


def _cut(text: str, start: int, end: int, longest: int) -> int:
    """Return the end of the first piece of a sentence, of at most `longest` characters."""
    if end - start <= longest:
        return end
    for pattern in (_CLAUSE, _SPACE):
        ends = [item.end() for item in pattern.finditer(text, start, start + longest)]
        if ends and ends[-1] - start > longest // 4:
            return ends[-1]
    return start + longest


def _stripped(text: str, piece: slice) -> slice:
    content = text[piece]
    start = piece.start + len(content) - len(content.lstrip())
    return slice(start, start + len(content.strip()))
