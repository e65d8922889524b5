"""Word spotting: where phrases may have been said, by the log probabilities of CTC alone.

Tokens run through the trie of the phrases and may enter it in any frame, as in CTC-WS (Andrusenko
et al., 2024, https://arxiv.org/abs/2406.07096). A node keeps the best token in its unit and the
best in the blank after it. Scores are relative to the best path of the same frames, so that tokens
which entered at different times can be compared.

A token is one number, which makes a frame a dozen operations on whole arrays. Above bit 20 it has
the score in units of 2^-10 nats, and below it the frame of its first unit.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from conch.component import DoubleArray, FloatArray, IntArray
from conch.decoding.units import BLANK, SPECIAL, opens_words
from conch.decoding.vocab import is_byte_bpe
from conch.wire.errors import OptionError
from conch.wire.hotwords import Hotword

ROOT = 0
_SHOWN = 100
"""Characters of a model that an error names at most."""
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


class HotwordTrie(NamedTuple):
    """Beginnings of phrases; node 0 is the empty one."""

    phrases: tuple[str, ...]
    """Phrases, each once, with single spaces between words."""
    weights: DoubleArray
    """float64 `[P]`: nats for each phrase."""
    spellings: tuple[tuple[int, ...], ...]
    lengths: IntArray
    """int64 `[P]`: units of each phrase."""
    word_counts: IntArray
    """int64 `[P]`: words of each phrase."""
    units: IntArray
    """int64 `[N]`: the last unit of each beginning."""
    parents: IntArray
    """int64 `[N]`: the beginning without its last unit."""
    repeats: NDArray[np.bool_]
    """bool `[N]`: the unit before is the same."""
    ends: IntArray
    """int64 `[P]`: the node of each phrase."""
    space: int | None
    """The unit between words; None if units open words by themselves."""
    vocab: tuple[str, ...]


def hotword_trie(
    hotwords: Sequence[Hotword],
    vocab: Sequence[str],
    encode: Callable[[str], list[int]],
    *,
    skips_foreign: bool = False,
) -> HotwordTrie:
    """Build the trie of some phrases; of one given twice the larger weight counts.

    `encode` returns the units of a text. With `skips_foreign`, phrases that the vocabulary cannot
    write are left out; otherwise they are an error.
    """
    letters = {*"".join(text for text in vocab if not SPECIAL.fullmatch(text)), " "}
    weights: dict[str, float] = {}
    for hotword in hotwords:
        phrase = " ".join(hotword.phrase.split())
        if foreign := sorted({*phrase} - letters):
            if skips_foreign:
                continue
            shown = repr("".join(sorted(letters)).strip()[:_SHOWN])
            if is_byte_bpe(letters):
                shown = "which are those of ASCII, because other letters are bytes to it,"
            raise OptionError(
                f"option 'hotwords' takes phrases in the model's characters, {shown} and the "
                f"space; sent: {hotword.phrase!r:.80}, which has {foreign[0]!r}"
            )
        weights[phrase] = max(hotword.weight, weights.get(phrase, 0.0))
    nodes: dict[tuple[int, int], int] = {}
    units, parents = [-1], [ROOT]
    ends, spellings = [], []
    for phrase in weights:
        node = ROOT
        spelling = tuple(encode(phrase))
        for unit in spelling:
            key = node, unit
            if key not in nodes:
                nodes[key] = len(units)
                units.append(unit)
                parents.append(node)
            node = nodes[key]
        ends.append(node)
        spellings.append(spelling)
    all_units = np.array(units)
    return HotwordTrie(
        phrases=tuple(weights),
        weights=np.array(list(weights.values()), np.float64),
        spellings=tuple(spellings),
        lengths=np.array([len(spelling) for spelling in spellings], np.int64),
        word_counts=np.array([phrase.count(" ") + 1 for phrase in weights], np.int64),
        units=all_units.clip(0),
        parents=np.array(parents),
        repeats=all_units == all_units[parents],
        ends=np.array(ends, np.int64),
        space=None if opens_words(vocab) or " " not in vocab else vocab.index(" "),
        vocab=tuple(vocab),
    )


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
        self._pending: list[tuple[IntArray, IntArray, int]] = []
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
            self._pending.append((phrases, ended[phrases], self._frame + 1))

    def spots(self) -> Spots:
        """Return the spots so far, in the order of their ends."""
        if self._pending:
            phrases, tokens_of, ends = zip(*self._pending, strict=True)
            self._pending = []
            before, tokens = self._spots, np.concatenate(tokens_of)
            self._spots = Spots(
                np.concatenate([before.phrases, *phrases]),
                np.concatenate([before.starts, tokens & ((1 << _FRAME_BITS) - 1)]),
                np.concatenate([before.ends, np.repeat(ends, [*map(len, phrases)])]),
                np.concatenate([before.scores, (tokens >> _FRAME_BITS) / _PER_NAT]),
            )
        return self._spots
