"""Word spotting: where phrases may have been said, by the log probabilities of CTC alone.

Tokens run through the trie of the phrases and may enter it in any frame, as in CTC-WS (Andrusenko
et al., 2024, https://arxiv.org/abs/2406.07096). A node keeps the best token in its unit and the
best in the blank after it. Scores are relative to the best path of the same frames, so that tokens
which entered at different times can be compared.

A token is one number, which makes a frame a dozen operations on whole arrays: its score in units of
2^-10 nats above bit 20, and below it the frame of its first unit.
"""

from typing import NamedTuple

import numpy as np

from conch.component import DoubleArray, FloatArray, IntArray
from conch.decoding.hotwords.trie import ROOT, HotwordTrie
from conch.decoding.units import BLANK

_FRAME_BITS = 20
_PER_NAT = 1024
_SCALE = _PER_NAT << _FRAME_BITS
_NEVER = -(1 << 60)
_LEAST_UNIT = -30.0
"""Nats that a frame takes off a token at most."""
_SILENT = -7.0
"""A frame in which every unit is as far below the best is one of the blank alone."""
_LEAST = 8.0, 2.0
"""Nats below the best path up to which a phrase is kept: for itself, and for each of its units."""


class Spots(NamedTuple):
    """Where phrases may have been said; every field is `[N]`."""

    phrases: IntArray
    """int64: places in the trie's list."""
    starts: IntArray
    """int64: frame of the first unit."""
    ends: IntArray
    """int64: after the frame of the last unit."""
    scores: DoubleArray
    """float64: log probability less that of the best path in these frames; at most 0."""


class Spotter:
    """The tokens of one utterance; the result does not depend on the chunks."""

    def __init__(self, trie: HotwordTrie) -> None:
        self._trie = trie
        self._unit = np.full(len(trie.units), _NEVER)
        self._blank = np.full(len(trie.units), _NEVER)
        (self._repeats,) = trie.repeats.nonzero()
        self._least = (-(_LEAST[0] + _LEAST[1] * trie.lengths) * _SCALE).astype(np.int64)
        self._frame = 0
        self._is_silent = False
        nothing = np.zeros(0, np.int64)
        self._spots = Spots(nothing, nothing, nothing, np.zeros(0))
        self._found: list[tuple[IntArray, IntArray, int]] = []
        """Not in `_spots` yet: phrases, their tokens, and the frame after their end."""

    def advance(self, log_probs: FloatArray) -> None:
        """Take the next frames, float32 `[T, V]`."""
        relative = log_probs - log_probs.max(1, keepdims=True)
        silent = (relative[:, BLANK + 1 :].max(1) < _SILENT).tolist()
        costs = (relative.clip(_LEAST_UNIT) * _PER_NAT).astype(np.int64) << _FRAME_BITS
        for frame, is_silent in zip(costs, silent, strict=True):
            if not is_silent:
                self._step(frame)
            elif not self._is_silent:
                np.maximum(self._blank, self._unit, out=self._blank)
                self._unit.fill(_NEVER)
            self._is_silent = is_silent
            self._frame += 1

    def _step(self, costs: IntArray) -> None:
        """Move all tokens by one frame; `costs` are int64 `[V]`, as scores of tokens."""
        trie, unit, blank = self._trie, self._unit, self._blank
        blank[ROOT] = self._frame
        arriving = unit.take(trie.parents)
        arriving[self._repeats] = _NEVER  # the same unit again needs a blank between
        np.maximum(arriving, blank.take(trie.parents), out=arriving)
        np.maximum(blank, unit, out=blank)
        blank += costs[BLANK]
        np.maximum(unit, arriving, out=unit)
        unit += costs.take(trie.units)
        unit[ROOT] = _NEVER
        ended = unit.take(trie.ends)
        (phrases,) = (ended > self._least).nonzero()
        if len(phrases):
            self._found.append((phrases, ended[phrases], self._frame + 1))

    def spots(self) -> Spots:
        """Return the spots so far, in the order of their ends."""
        if self._found:
            phrases, tokens_of, ends = zip(*self._found, strict=True)
            self._found = []
            before, tokens = self._spots, np.concatenate(tokens_of)
            self._spots = Spots(
                np.concatenate([before.phrases, *phrases]),
                np.concatenate([before.starts, tokens & ((1 << _FRAME_BITS) - 1)]),
                np.concatenate([before.ends, np.repeat(ends, [*map(len, phrases)])]),
                np.concatenate([before.scores, (tokens >> _FRAME_BITS) / _PER_NAT]),
            )
        return self._spots
