"""The beginnings of known words, as tables over the units of a vocabulary."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from conch.decoding.beam.arrays import Array
from conch.decoding.beam.ngram_arrays import UNKNOWN_WORD
from conch.decoding.vocab import CtcVocab

NO_WORD = -2
"""Between words."""
ROOT = 0
_TYPICAL_WORD = 6
"""Letters; longer beginnings of no known word cost more."""
_LONGEST = 64
"""Letters of an unknown word that are counted."""


class WordTrie(NamedTuple):
    """A trie of known words; behind its nodes those of unknown beginnings, one for each length.

    Node 0 is between words. Under the blank a node leads to itself.
    """

    following: Array
    """int32 `[nodes, V]`: the node after a unit."""
    penalties: Array
    """float32 `[nodes, V]`: 0 where a unit leads to the beginning of a known word; else how
    many times an unknown word's cost the beginning costs, at least 1."""
    words: Array
    """int64 `[nodes]`: the word that ends here, -1 where none does, -2 between words."""


def word_trie(words: Sequence[str], vocab: CtcVocab) -> WordTrie:
    """Build the tables, as numpy's; words that the vocabulary cannot write are never reached.

    They take 8 bytes for each beginning and unit: 40 MB for 72,000 words and 29 characters.

    Args:
        words: their places are their ids.
        vocab: of the acoustic model.
    """
    letters = {letter: index for index, letter in enumerate(sorted({*"".join(vocab.texts)}))}
    children, lengths, ends = _trie(words, letters)
    known = len(children)
    # From a node of an unknown beginning every letter leads to the next of them.
    unknown = known + np.minimum(np.arange(1, _LONGEST + 1), _LONGEST - 1)
    letter_table = np.concatenate([children, np.repeat(unknown[:, None], len(letters), 1)])
    # A beginning of n letters that a letter leads out of is an unknown one of n + 1 letters.
    left = np.concatenate([known + np.minimum(lengths, _LONGEST - 1), unknown])
    letter_table = np.where(letter_table == 0, left[:, None], letter_table).astype(np.int32)

    nodes = np.arange(len(letter_table), dtype=np.int32)
    following = np.empty((len(nodes), len(vocab.texts)), np.int32)
    for unit, text in enumerate(vocab.texts):
        node = np.full_like(nodes, ROOT) if vocab.opening[unit] else nodes
        for letter in text.lstrip(" "):
            node = letter_table[node, letters[letter]]
        following[:, unit] = node
    costs = np.zeros(len(nodes), np.float32)
    costs[known:] = np.maximum(1.0, np.arange(1, _LONGEST + 1) / _TYPICAL_WORD)
    ids = np.full(len(nodes), UNKNOWN_WORD)
    ids[: len(ends)] = ends
    ids[ROOT] = NO_WORD
    return WordTrie(following=following, penalties=costs[following], words=ids)


def _trie(
    words: Sequence[str], letters: dict[str, int]
) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]:
    """Return children `[nodes, letters]` (0 is none), lengths and words of nodes."""
    nodes: dict[str, int] = {"": ROOT}
    edges: list[tuple[int, int, int]] = []
    ends: dict[int, int] = {}
    for word_id, word in enumerate(words):
        if not word or not letters.keys() >= set(word):
            continue
        node = ROOT
        for length, letter in enumerate(word, 1):
            beginning = word[:length]
            found = nodes.get(beginning)
            if found is None:
                found = nodes[beginning] = len(nodes)
                edges.append((node, letters[letter], found))
            node = found
        ends[node] = word_id
    children = np.zeros((len(nodes), len(letters)), np.int32)
    if edges:
        parents, by, to = np.array(edges).T
        children[parents, by] = to
    lengths = np.fromiter(map(len, nodes), np.int64, len(nodes))
    word_ids = np.full(len(nodes), UNKNOWN_WORD, np.int64)
    word_ids[list(ends)] = list(ends.values())
    return children, lengths, word_ids
