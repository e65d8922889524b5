"""Hypotheses of the CTC searches, and their words with frames."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from conch.component import FloatArray, IntArray
from conch.decoding.units import BLANK


@dataclass(frozen=True, slots=True)
class AlignedWord:
    """A word and the frames that it was read from."""

    text: str
    start_frame: int
    """Frame of the first unit."""
    end_frame: int
    """Frame after the last unit."""
    confidence: float
    """Geometric mean of the units' probabilities, each at its best frame; in (0, 1]."""


@dataclass(frozen=True, slots=True)
class CtcHypothesis:
    """One candidate text; every score is a natural logarithm, higher is better."""

    text: str
    """Words separated by single spaces."""
    words: tuple[AlignedWord, ...]
    score: float
    am_score: float
    lm_score: float
    """Unweighted log probability of the words by the n-gram; 0 without the n-gram."""
    ends_turn: bool = field(default=False, kw_only=True)
    """Whether its last unit says that the speaker has finished."""


class PathUnit(NamedTuple):
    text: str
    start: int
    """First frame."""
    end: int
    """Frame after the last one."""
    log_prob: float
    """Log probability at the unit's best frame."""


def spelled_words(units: Iterable[PathUnit]) -> tuple[AlignedWord, ...]:
    """Return the words that units spell; a unit may have a space only at its beginning."""
    spellings: list[list[PathUnit]] = [[]]
    for unit in units:
        if unit.text.startswith(" "):
            spellings.append([])
        if unit.text.strip():
            spellings[-1].append(unit)
    return tuple(
        aligned_word("".join(unit.text for unit in spelling).strip(), spelling)
        for spelling in spellings
        if spelling
    )


def aligned_word(text: str, units: Sequence[PathUnit]) -> AlignedWord:
    confidence = math.exp(sum(unit.log_prob for unit in units) / len(units))
    return AlignedWord(text, units[0].start, units[-1].end, min(1.0, confidence))


class UnitRuns(NamedTuple):
    """The units of a path without blanks; a unit that is repeated without a blank is one."""

    units: IntArray
    """int64 `[N]`."""
    starts: IntArray
    """int64 `[N]`: first frame of each unit."""
    ends: IntArray
    """int64 `[N]`: frame after the last of each unit."""
    log_probs: FloatArray
    """float32 `[N]`: log probability of each unit at its best frame."""


def unit_runs(path: IntArray, log_probs: FloatArray) -> UnitRuns:
    """Return the units of a path, the unit of each frame; both arrays are `[T]`."""
    starts = np.flatnonzero(np.diff(path, prepend=-1))
    ends = np.append(starts[1:], len(path))
    peaks = np.maximum.reduceat(log_probs, starts) if len(starts) else log_probs
    (emits,) = (path[starts] != BLANK).nonzero()
    return UnitRuns(path[starts[emits]], starts[emits], ends[emits], peaks[emits])
