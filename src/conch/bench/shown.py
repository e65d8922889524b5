"""What a viewer of a live stream sees: the text on the screen after each answer."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import inf

from conch.bench.measures import ENGLISH_WORDS, Scoring
from conch.wire.joining import joined_text
from conch.wire.result import Transcript, text_of_words


@dataclass(frozen=True, slots=True)
class Ended:
    """An utterance that an answer tells as ended, or replaces."""

    index: int
    text: str
    end_s: float
    """Seconds on the audio's clock."""
    is_final: bool
    """Whether no later answer replaces the text."""


@dataclass(frozen=True, slots=True)
class Shown:
    """The part of an answer that a viewer sees."""

    at_s: float
    """When it came, in seconds after the stream's first sample was spoken."""
    ended: tuple[Ended, ...]
    """Utterances that are new or replaced."""
    text: str
    """Text of the utterance that is being spoken."""
    firm: str
    """The beginning of that text that stays until the utterance ends."""
    is_last: bool


@dataclass(frozen=True, slots=True)
class Line:
    """An utterance on the screen."""

    words: tuple[str, ...]
    """Normalised words."""
    num_firm: int
    """How many of the first words are told to be firm."""
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


class ScreenLog:
    """Recorder of what each answer shows. It keeps the changes, because streams are long."""

    def __init__(self, *, has_second_pass: bool) -> None:
        """Start with an empty screen.

        Args:
            has_second_pass: whether a second pass replaces the text of an ended utterance.
        """
        self._has_second_pass = has_second_pass
        self._texts: dict[int, str] = {}

    def shown(self, answer: Transcript, now_s: float) -> Shown:
        """Return what an answer shows that came `now_s` seconds after the first sample.

        An answer without `utterance` may be of a server that does not tell it. There the text of
        the open utterance is what follows the ended ones in `text`; `stable` says what is firm.
        """
        ended = tuple(
            Ended(
                index=segment.index,
                text=segment.text,
                end_s=segment.end,
                is_final=segment.passes == 2 or not self._has_second_pass or bool(segment.error),
            )
            for segment in answer.segments
        )
        self._texts |= {item.index: item.text for item in ended}
        text: str | None
        firm: str | None
        if answer.utterance is not None:
            text, firm = answer.utterance.text, text_of_words(answer.utterance.firm)
        else:
            before = joined_text(self._texts[index] for index in sorted(self._texts))
            text, firm = _following(answer.text, before), _following(answer.stable, before)
        return Shown(now_s, ended, text or "", firm or "", answer.is_final)


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


def _following(text: str, before: str) -> str | None:
    """Return what follows a beginning of a text; None if the text begins otherwise."""
    return text.removeprefix(before).strip() if text.startswith(before) else None


@lru_cache(maxsize=4096)
def _words(text: str, scoring: Scoring) -> tuple[str, ...]:
    return tuple(scoring.tokens(text))
