"""What a viewer of a live stream sees: the text on the screen after each answer."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import inf

from conch.bench.figures import Shown
from conch.scoring.error_rates import ENGLISH_WORDS, Scoring


@dataclass(frozen=True, slots=True)
class Line:
    """An utterance on the screen."""

    words: tuple[str, ...]
    """Normalised words."""
    num_firm: int
    """How many of the first words are firm."""
    is_final: bool


@dataclass(frozen=True, slots=True)
class Screen:
    """The screen after an answer."""

    at_s: float
    """When the answer came, in seconds after the stream's first sample was spoken."""
    lines: tuple[Line, ...]
    """All utterances so far, in order. Their number never falls."""
    ended_until_s: float
    """End of the audio whose text is complete: that of the last utterance that has ended."""

    @property
    def words(self) -> list[str]:
        """All words on the screen."""
        return [word for line in self.lines for word in line.words]


def screens(log: Sequence[Shown], scoring: Scoring = ENGLISH_WORDS) -> Iterator[Screen]:
    """Yield the screen after each answer of one stream, in order.

    Args:
        log: what the answers show.
        scoring: what counts as a word.
    """

    def words_of(text: str) -> tuple[str, ...]:
        return _words(text, scoring)

    lines: list[Line] = []
    ended_until_s = 0.0
    num_ended = 0
    for shown in log:
        for item in shown.ended:
            _extend(lines, item.index)
            words = words_of(item.text)
            num_firm = len(words) if item.is_final else lines[item.index].num_firm
            lines[item.index] = Line(words, min(num_firm, len(words)), item.is_final)
            ended_until_s = max(ended_until_s, item.end_s)
            num_ended = max(num_ended, item.index + 1)
        if shown.text or len(lines) > num_ended:
            _extend(lines, num_ended)
            words = words_of(shown.text)
            lines[num_ended] = Line(words, min(len(words_of(shown.firm)), len(words)), False)
        yield Screen(shown.at_s, tuple(lines), inf if shown.is_last else ended_until_s)


def _extend(lines: list[Line], index: int) -> None:
    while len(lines) <= index:
        lines.append(Line((), 0, False))


@lru_cache(maxsize=4096)
def _words(text: str, scoring: Scoring) -> tuple[str, ...]:
    return tuple(scoring.tokens(text))
