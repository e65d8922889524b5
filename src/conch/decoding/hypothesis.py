"""Hypotheses of the CTC search, and their words with times."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from conch.decoding.graph.alignment import AlignedWord
from conch.wire.result import Word


@dataclass(frozen=True, slots=True)
class CtcHypothesis:
    """One candidate text; every score is a natural logarithm, higher is better."""

    text: str
    """Words separated by single spaces."""
    am_score: float
    """Log of the summed probabilities of this text's paths in the beam."""
    lm_score: float
    """Unweighted log probability of the words by the n-gram; 0 without the n-gram.

    A final hypothesis includes the end of the sentence.
    """
    score: float
    """Score to rank by: `am_score + lm_weight · lm_score + word_bonus · words`.

    An incomplete word that begins no known word costs extra until it is complete.
    """
    units: tuple[int, ...]
    """Ids of the units without blanks; spaces as in the text."""
    texts: tuple[str, ...]
    """The text of each unit."""
    frames: tuple[int, ...]
    """Frame of each unit, counted in the stream, that adds most of its probability."""
    log_probs: tuple[float, ...]
    """Log posterior of each unit at its best frame before the next unit."""


class SpelledWord(NamedTuple):
    """A word of a hypothesis, and what writes it."""

    aligned: AlignedWord
    """It starts with the frame of its first unit and ends with that of its last."""
    units: tuple[int, ...]
    """Without spaces that are units themselves."""


def spelled_words(hypothesis: CtcHypothesis) -> Iterator[SpelledWord]:
    """Yield the words of a hypothesis; its units may have a space only at their beginning."""
    places: list[int] = []

    def word() -> SpelledWord:
        text = "".join(hypothesis.texts[place] for place in places).strip()
        log_probs = [hypothesis.log_probs[place] for place in places]
        confidence = math.exp(min(0.0, sum(log_probs) / len(log_probs)))
        start, end = hypothesis.frames[places[0]], hypothesis.frames[places[-1]] + 1
        units = tuple(hypothesis.units[place] for place in places)
        return SpelledWord(AlignedWord(text, start, end, confidence), units)

    for place, text in enumerate(hypothesis.texts):
        if text.startswith(" ") and places:
            yield word()
            places.clear()
        if text.strip():
            places.append(place)
    if places:
        yield word()


def timed_words(words: Iterable[AlignedWord], frame_s: float) -> tuple[Word, ...]:
    """Return words with their times; `frame_s` is the seconds of a frame."""
    return tuple(
        Word(word.text, word.start_frame * frame_s, word.end_frame * frame_s, word.confidence)
        for word in words
    )


def words_of(hypothesis: CtcHypothesis, frame_s: float) -> tuple[Word, ...]:
    """Return the words of a hypothesis with their times; `frame_s` is the seconds of a frame.

    A word's confidence is the geometric mean of the posteriors of its units, each at its best
    frame.
    """
    return timed_words((word.aligned for word in spelled_words(hypothesis)), frame_s)
