"""The log probability of given texts by CTC, over all their alignments."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from conch.component import DoubleArray, FloatArray, IntArray
from conch.decoding.units import BLANK, Units
from conch.language import language_model_words

_MOST = 2.0**1000
"""The number for probability 1. It is large, so that much smaller ones are still exact."""
_LEAST = 2.0**-1000
"""Smallest sum that is trusted. Each product of a unit and a frame may lose up to 2^-1075."""


class _Arithmetic(NamedTuple):
    plus: np.ufunc
    times: np.ufunc
    zero: float
    one: float


_LOGARITHMS = _Arithmetic(np.logaddexp, np.add, -math.inf, 0.0)


def text_scores(log_probs: FloatArray, texts: Sequence[str], units: Units) -> DoubleArray:
    """Return the log probability of each text's units, float64 `[N]`; see `forward_scores`.

    `log_probs` are float32 `[T, vocab]`, natural log. Words and letters without a unit count for
    nothing.
    """
    encoded = []
    for text in texts:
        words = [word for word in language_model_words(text) if units.encode(word)]
        encoded.append(tuple(units.encode(" ".join(words))))
    distinct = list(dict.fromkeys(encoded))
    scores = dict(zip(distinct, forward_scores(log_probs, distinct).tolist(), strict=True))
    return np.array([scores[item] for item in encoded], np.float64)


def forward_scores(log_probs: FloatArray, texts: Sequence[Sequence[int]]) -> DoubleArray:
    """Return the log of the summed probabilities of all alignments of each text, float64 `[N]`.

    The forward algorithm of CTC (Graves et al., 2006, "Connectionist Temporal Classification",
    ICML). Multiplying probabilities is ten times as fast as adding logarithms. Texts too improbable
    for that, far below e^-1000, are computed again in logarithms.

    `log_probs` are float32 `[T, vocab]`, natural log; `texts` are units without blanks. No unit
    scores as T blanks; a text that needs more than T frames scores -inf.
    """
    scores = np.full(len(texts), -np.inf)
    possible = [index for index, text in enumerate(texts) if _frames_of(text) <= len(log_probs)]
    if possible:
        multiplied, is_exact = _multiplied(log_probs, [texts[index] for index in possible])
        scores[possible] = multiplied
        rest = [index for index, exact in zip(possible, is_exact, strict=True) if not exact]
        if rest:
            states = _States.of([texts[index] for index in rest])
            emissions = log_probs[:, states.used].astype(np.float64)
            scores[rest] = _totals(emissions, states, _LOGARITHMS)
    return scores


def _frames_of(text: Sequence[int]) -> int:
    """Return the frames that a text needs: one a unit, and a blank between two of the same."""
    return len(text) + sum(one == other for one, other in pairwise(text))


class _States(NamedTuple):
    """All texts in one row: a state for each unit, and a closing one for each text.

    A state stands for a blank and for the unit after it. The closing one has its blank alone.
    """

    used: IntArray
    """The units that occur, ascending; the blank is the first."""
    units: IntArray
    """Index in `used` of each state's unit; 0 in a closing state."""
    differs: NDArray[np.bool_]
    """Whether each state's unit is another than that of the state before."""
    first: IntArray
    """First state of each text."""
    closing: IntArray
    """Closing state of each text."""

    @classmethod
    def of(cls, texts: Sequence[Sequence[int]]) -> "_States":
        row = np.array([unit for text in texts for unit in (*text, BLANK)], np.int64)
        used, units = np.unique(row, return_inverse=True)
        closing = np.cumsum([len(text) + 1 for text in texts]) - 1
        first = np.concatenate([[0], closing[:-1] + 1])
        return cls(used, units, np.diff(row, prepend=BLANK) != 0, first, closing)


def _multiplied(
    log_probs: FloatArray, texts: Sequence[Sequence[int]]
) -> tuple[DoubleArray, NDArray[np.bool_]]:
    """Return the scores of texts by multiplication, 0 if inexact, and whether each is exact."""
    states = _States.of(texts)
    logs = log_probs[:, states.used].astype(np.float64)
    # Numbers above 0 are no log probabilities, and may overflow. They are left to logarithms.
    with np.errstate(over="ignore", invalid="ignore"):
        emissions = np.exp(logs)
        # exp rounds the smallest. Their error must not be multiplied by _MOST.
        is_rounded = (emissions < np.finfo(np.float64).tiny) & (logs > -np.inf)
        one = 1.0 if is_rounded.any() else _MOST
        totals = _totals(emissions, states, _Arithmetic(np.add, np.multiply, 0.0, one))
        is_exact = (totals > _LEAST) & (totals < np.inf)
    return np.log(np.where(is_exact, totals, one)) - np.log(one), is_exact


def _totals(emissions: DoubleArray, states: _States, numbers: _Arithmetic) -> DoubleArray:
    """Return the sum over all alignments of each text, float64 `[N]`.

    `emissions` are float64 `[T, used]`: each used unit's probability in each frame, in `numbers`.
    """
    plus, times, zero, one = numbers
    blanks = emissions[:, BLANK].tolist()
    emissions = emissions.copy()
    emissions[:, BLANK] = zero  # now of the unit that a closing state lacks
    passable = np.where(states.differs, times.identity, zero)
    size = len(states.units)
    in_blank = np.full(size, zero)
    in_blank[states.first] = one
    shifted = np.full(size + 1, zero)
    before, in_unit = shifted[:-1], shifted[1:]
    arriving, emission = np.empty(size), np.empty(size)
    for frame, blank in zip(emissions, blanks, strict=True):
        times(before, passable, out=arriving)
        plus(arriving, in_blank, out=arriving)
        plus(arriving, in_unit, out=arriving)
        plus(in_blank, before, out=in_blank)
        times(in_blank, blank, out=in_blank)
        frame.take(states.units, out=emission, mode="clip")  # the mode that does not copy
        times(arriving, emission, out=in_unit)
    totals: DoubleArray = plus(in_blank[states.closing], before[states.closing])
    return totals
