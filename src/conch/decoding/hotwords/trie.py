"""Hotwords as a trie over the units of a CTC model."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from conch.component import DoubleArray, IntArray
from conch.decoding.units import SPECIAL, opens_words
from conch.decoding.written import is_byte_bpe
from conch.wire.errors import OptionError
from conch.wire.hotwords import Hotword

ROOT = 0
_SHOWN = 100
"""Characters of a model that an error names at most."""


class HotwordTrie(NamedTuple):
    """Beginnings of phrases; node 0 is the empty one."""

    phrases: tuple[str, ...]
    """Phrases, each once, with single spaces between words."""
    weights: DoubleArray
    """float64 `[P]`: nats for each phrase."""
    spellings: tuple[tuple[int, ...], ...]
    """Units of each phrase."""
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
    """Texts of the units."""


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
