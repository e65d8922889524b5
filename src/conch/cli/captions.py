"""What to show of a live stream: final utterances, and lines in three shades that may change.

It is independent of any terminal.
"""

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise, takewhile

from conch.wire.joining import joined_text, separator
from conch.wire.result import Segment, Transcript, Word, text_of_words
from conch.wire.turns import cut_by_speaker


@dataclass(frozen=True, slots=True)
class Line:
    """An utterance whose text may change: its parts, the surest first."""

    firm: str = ""
    """Words that stay until the utterance ends."""
    tentative: str = ""
    """Words that the next pass may change."""
    newest: str = ""
    """Words of the first pass."""

    @property
    def text(self) -> str:
        return joined_text((self.firm, self.tentative, self.newest))


@dataclass(frozen=True, slots=True)
class Caption:
    """What to show after an answer."""

    final: tuple[str, ...]
    """Utterances that became final with this answer, in order; none is empty."""
    open: tuple[Line, ...]
    """Utterances that await their second pass, then the one that is being spoken; none is empty."""


class Captions:
    """Decides after each answer of a live stream what to show."""

    def __init__(self, *, has_second_pass: bool) -> None:
        self._has_second_pass = has_second_pass
        self._known: dict[int, Segment] = {}
        """Utterances that have ended and are not final."""
        self._num_final = 0

    def after(self, answer: Transcript) -> Caption:
        """Return what to show after the next answer."""
        segments = {segment.index: segment for segment in answer.segments}
        self._known |= {index: segments[index] for index in segments if index >= self._num_final}
        final: list[str] = []
        for segment in self._ended()[: self._count_final(answer)]:
            del self._known[segment.index]
            self._num_final += 1
            final += [
                _named(part.speaker, part.text) for part in cut_by_speaker(segment) if part.text
            ]
        return Caption(tuple(final), tuple(line for line in self._lines(answer) if line.text))

    def _ended(self) -> list[Segment]:
        """Return the utterances of `_known` that follow the final ones without a gap."""
        ended, index = [], self._num_final
        while (segment := self._known.get(index)) is not None:
            ended.append(segment)
            index += 1
        return ended

    def _count_final(self, answer: Transcript) -> int:
        ended = self._ended()
        # By default a server without Moonshine and Whisper makes one pass.
        if answer.is_final or not self._has_second_pass or answer.rolling is None:
            return len(ended)
        done = takewhile(lambda segment: segment.passes > 1 or segment.error, ended)
        return sum(1 for _ in done)

    def _lines(self, answer: Transcript) -> Iterator[Line]:
        """Yield the lines of the utterances that are not final; a line may be empty."""
        texts = [segment.text for segment in self._ended()]
        spoken = None if answer.is_final else answer.utterance
        open_text = "" if spoken is None else spoken.text
        # Utterances that are final may come before them in the answer's text.
        num_firm = len(answer.stable) - len(answer.text)
        num_firm += len(joined_text([*texts, open_text]))
        shown = [*filter(None, texts), open_text]
        for text, after in pairwise(shown):
            firm = min(max(0, num_firm), len(text))
            yield Line(text[:firm].strip(), text[firm:].strip())
            num_firm -= len(text + separator(text, after))
        if spoken is not None:
            parts = (spoken.firm, spoken.tentative, spoken.newest)
            yield Line(*_texts(parts))


def _texts(parts: Sequence[Sequence[Word]]) -> list[str]:
    """Return the text of each part; where the speaker changes, with the name of who goes on."""
    texts, before = [], ""
    for part in parts:
        text = ""
        for who, words in groupby(part, lambda word: word.speaker or ""):
            said = text_of_words([*words])
            text = joined_text((text, said if who == before else _named(str(who), said)))
            before = str(who)
        texts.append(text)
    return texts


def _named(speaker: str, text: str) -> str:
    return f"{speaker}: {text}" if speaker and text else text


def cut(line: Line, columns: int) -> Line:
    """Return the end of a line, as much as fits into this number of columns of a terminal."""
    kept = []
    for part in (line.newest, line.tentative, line.firm):
        end = _end_of(part, columns)
        # Nothing may stand to the left of a part that was cut.
        columns = columns - width_of(end) - bool(end) if end == part else 0
        kept.append(end)
    newest, tentative, firm = kept
    return Line(firm, tentative, newest)


def width_of(text: str) -> int:
    """Return the columns that a text takes on a terminal.

    Wide and fullwidth characters take two (Unicode Standard Annex 11). Marks on a letter and
    invisible characters take none.
    """
    return sum(map(_width, text))


def _width(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1


def _end_of(text: str, columns: int) -> str:
    start = len(text)
    while start and (columns := columns - _width(text[start - 1])) >= 0:
        start -= 1
    if start:  # A mark without its letter would go onto the character before.
        while start < len(text) and not _width(text[start]):
            start += 1
    return text[start:].lstrip()
