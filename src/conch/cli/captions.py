"""Captions of a live stream: final utterances, then lines in three shades that may change.

A terminal has these lines at its end, where they are redrawn.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise, takewhile
from typing import TextIO

from conch.wire.joining import joined_text, separator
from conch.wire.result import Segment, Transcript, Word, text_of_words
from conch.wire.subtitles import columns as columns_of
from conch.wire.turns import cut_by_speaker

DEFAULT_SIZE = os.terminal_size((80, 24))
TENTATIVE, NEWEST, PLAIN = "\x1b[2m", "\x1b[2;90m", "\x1b[0m"
"""Select Graphic Rendition (ECMA-48): faint; faint and grey; neither."""
CLEAR = "\r\x1b[J"
"""Control codes that empty the terminal from the present line on."""
CLIP, WRAP = "\x1b[?7l", "\x1b[?7h"
"""Control codes after which a line that is too long is clipped, or wraps (DECAWM)."""


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
        columns = columns - columns_of(end) - bool(end) if end == part else 0
        kept.append(end)
    newest, tentative, firm = kept
    return Line(firm, tentative, newest)


def _end_of(text: str, columns: int) -> str:
    start = len(text)
    while start and (columns := columns - columns_of(text[start - 1])) >= 0:
        start -= 1
    if start:  # A mark without its letter would go onto the character before.
        while start < len(text) and not columns_of(text[start]):
            start += 1
    return text[start:].lstrip()


def size_of(terminal: TextIO) -> os.terminal_size:
    """Return columns and lines; some terminals report 0, as under `script` or `docker exec -t`."""
    try:
        columns, lines = os.get_terminal_size(terminal.fileno())
    except OSError:
        return DEFAULT_SIZE
    return os.terminal_size((columns or DEFAULT_SIZE.columns, lines or DEFAULT_SIZE.lines))


class OpenLines:
    """Lines in three shades at the end of a terminal, drawn again when they change.

    The cursor waits in front of them, and a resize leaves it there. So everything behind it can be
    emptied, whether the terminal rewraps long lines or cuts them.
    """

    def __init__(self, terminal: TextIO, environment: Mapping[str, str]) -> None:
        """`NO_COLOR` in `environment`, if not empty, turns the shades off (https://no-color.org).

        So does `TERM=dumb`, where the lines become one.
        """
        self._terminal = terminal
        self._is_dumb = environment.get("TERM") == "dumb"
        self._is_shaded = not (self._is_dumb or environment.get("NO_COLOR"))
        self._shown: list[Line] = []

    def show(self, final: Sequence[str], lines: Sequence[Line]) -> None:
        """Write lines that stay, and below them those that may change."""
        columns, rows = size_of(self._terminal)
        if self._is_dumb and lines:  # Its cursor does not go up.
            lines = [Line(newest=joined_text(line.text for line in lines))]
        # More lines than rows would scroll the first one away from the cursor.
        ends = [cut(line, max(1, columns - 1)) for line in lines[-max(1, rows - 1) :]]
        shown = [line for line in ends if line.text]
        if not final and shown == self._shown:
            return
        written = self._clear() + "".join(f"{text}\n" for text in final)
        self._terminal.write(written + self._drawn(shown))
        self._terminal.flush()
        self._shown = shown

    def close(self) -> None:
        self._terminal.write("\n" * len(self._shown))
        self._terminal.flush()
        self._shown = []

    def _clear(self) -> str:
        if self._is_dumb:
            return f"\r{' ' * sum(columns_of(line.text) for line in self._shown)}\r"
        return CLEAR

    def _drawn(self, lines: Sequence[Line]) -> str:
        if not lines or self._is_dumb:
            return "".join(f"{line.text}\r" for line in lines)
        # A terminal may count a character as wider, or have been resized a moment ago.
        drawn = "\n".join(map(self._shaded, lines))
        up = f"\x1b[{len(lines) - 1}A" if len(lines) > 1 else ""
        return f"{CLIP}{drawn}{WRAP}{up}\r"

    def _shaded(self, line: Line) -> str:
        if not self._is_shaded:
            return line.text
        shown, before = "", ""
        for shade, text in (("", line.firm), (TENTATIVE, line.tentative), (NEWEST, line.newest)):
            space = separator(before, text)
            shown += f"{space}{shade}{text}{PLAIN if shade else ''}" if text else ""
            before = text or before
        return shown
