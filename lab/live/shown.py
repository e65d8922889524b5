"""What a viewer of a live stream sees: the text on the screen after each answer."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import inf

from conch.bench.figures import Shown
from conch.scoring.error_rates import ENGLISH_WORDS, Scoring


@dataclass(frozen=True, slots=True)
class Screen:
    """The screen after an answer."""

    at_s: float
    """When the answer came, in seconds after the stream's first sample was spoken."""
    lines: tuple[tuple[str, ...], ...]
    """The normalised words of all utterances so far, in order. Their number never falls."""
    ended_until_s: float
    """End of the audio whose text is complete: that of the last utterance that has ended."""

    @property
    def words(self) -> list[str]:
        return [word for line in self.lines for word in line]


def screens(log: Sequence[Shown], scoring: Scoring = ENGLISH_WORDS) -> Iterator[Screen]:
    """Yield the screen after each answer of one stream, in order, by what the answers show."""
    lines: list[tuple[str, ...]] = []
    ended_until_s = 0.0
    num_ended = 0

    def show(index: int, text: str) -> None:
        lines.extend([()] * (index + 1 - len(lines)))
        lines[index] = _words(text, scoring)

    for shown in log:
        for item in shown.ended:
            show(item.index, item.text)
            ended_until_s = max(ended_until_s, item.end_s)
            num_ended = max(num_ended, item.index + 1)
        if shown.text or len(lines) > num_ended:
            show(num_ended, shown.text)
        yield Screen(shown.at_s, tuple(lines), inf if shown.is_last else ended_until_s)


@lru_cache(maxsize=4096)
def _words(text: str, scoring: Scoring) -> tuple[str, ...]:
    return tuple(scoring.tokens(text))
