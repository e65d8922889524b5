"""All n-grams of a language model as arrays."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from conch.component import DoubleArray, IntArray

SENTENCE_START = "<s>"
SENTENCE_END = "</s>"


@dataclass(frozen=True, slots=True)
class NgramOrder:
    """The n-grams of one order, sorted by their words' indices, the oldest word first."""

    words: IntArray
    """int64 `[N, order]`: indices into the table's words, the oldest first."""
    log_probs: DoubleArray
    """float64 `[N]`: natural log probability of the last word after the others."""
    backoffs: DoubleArray
    """float64 `[N]`: natural log weight of the shorter history, for words not listed here."""

    def __len__(self) -> int:
        return len(self.words)

    def where(self, keep: NDArray[np.bool_]) -> "NgramOrder":
        """Return the n-grams that `keep`, bool `[N]`, selects."""
        return NgramOrder(self.words[keep], self.log_probs[keep], self.backoffs[keep])


@dataclass(frozen=True, slots=True)
class NgramTable:
    """A backoff n-gram model; the context of each n-gram is an n-gram of the order below."""

    words: tuple[str, ...]
    """Every word, with `<s>` and `</s>`; unigram i is word i."""
    orders: tuple[NgramOrder, ...]
    """Unigrams first."""

    def contexts(self) -> list[IntArray]:
        """Return rows of the contexts one order below, int64 `[N]` an order; 0 for unigrams."""
        rows = [np.zeros(len(self.orders[0]), np.int64)]
        for order in self.orders[1:]:
            rows.append(self.rows(order.words[:, :-1]))
        return rows

    def rows(self, ngrams: IntArray) -> IntArray:
        """Return the row of each n-gram in its order, -1 for an unlisted one."""
        rows = ngrams[:, 0]
        for column in range(1, ngrams.shape[1]):
            keys = np.where(rows < 0, -1, rows * len(self.words) + ngrams[:, column])
            rows = rows_of(self.keys(column + 1), keys)
        return rows

    def log_probs_of(self, ngrams: IntArray) -> DoubleArray:
        """Return the natural log probability of each last word, backing off; float64 `[N]`."""
        rows = self.rows(ngrams)
        log_probs = np.zeros(len(ngrams))
        is_there = rows >= 0
        log_probs[is_there] = self.orders[ngrams.shape[1] - 1].log_probs[rows[is_there]]
        missing = np.flatnonzero(rows < 0)
        if len(missing):
            histories = self.rows(ngrams[missing, :-1])
            log_probs[missing] = self.log_probs_of(ngrams[missing, 1:])
            known = histories >= 0
            backoffs = self.orders[ngrams.shape[1] - 2].backoffs
            log_probs[missing[known]] += backoffs[histories[known]]
        return log_probs

    def keys(self, order: int) -> IntArray:
        """Return the keys of the n-grams of an order above 1, for `rows_of`.

        Sorted int64 `[N]`: row of the context times the number of words, plus the last word.
        """
        words = self.orders[order - 1].words
        rows = words[:, 0] if order == 2 else self.rows(words[:, :-1])
        return rows * len(self.words) + words[:, -1]


def rows_of(keys: IntArray, wanted: IntArray) -> IntArray:
    """Return where the wanted keys stand among those of `NgramTable.keys`; -1 for a missing one."""
    if not len(keys):
        return np.full(len(wanted), -1)
    indices = np.searchsorted(keys, wanted).clip(max=len(keys) - 1)
    return np.where(keys[indices] == wanted, indices, -1)


def with_words(table: NgramTable, words: Sequence[str], log_prob: float) -> NgramTable:
    """Return a table with more unigrams, each with the same natural log probability.

    The table must lack the words. The probabilities of the other words stay, so that the sum of
    all exceeds one by the new ones.
    """
    first = table.orders[0]
    count = len(table.words)
    more = np.arange(count, count + len(words))[:, np.newaxis]
    unigrams = NgramOrder(
        np.concatenate([first.words, more]),
        np.concatenate([first.log_probs, np.full(len(words), log_prob)]),
        np.concatenate([first.backoffs, np.zeros(len(words))]),
    )
    return NgramTable((*table.words, *words), (unigrams, *table.orders[1:]))


def sorted_table(words: Sequence[str], orders: Sequence[NgramOrder]) -> NgramTable:
    """Return a table of unsorted n-grams, without those whose context is missing."""
    table = NgramTable(tuple(words), ())
    for number, order in enumerate(orders):
        columns = [order.words[:, column] for column in reversed(range(number + 1))]
        permutation = np.lexsort(columns)
        order = NgramOrder(
            order.words[permutation], order.log_probs[permutation], order.backoffs[permutation]
        )
        if number:
            order = order.where(table.rows(order.words[:, :-1]) >= 0)
        table = NgramTable(table.words, (*table.orders, order))
    return table
