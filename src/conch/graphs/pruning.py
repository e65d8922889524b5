"""Make n-gram models smaller: shorter histories, fewer words, or fewer n-grams."""

import math

import numpy as np
from numpy.typing import NDArray

from conch.component import DoubleArray, IntArray
from conch.decoding.ngram.table import (
    SENTENCE_END,
    SENTENCE_START,
    NgramOrder,
    NgramTable,
    sorted_table,
)

_LEAST_MASS = 1e-9
"""Least probability of a history's unlisted words; sums of quantised models may exceed one."""


def of_order(table: NgramTable, max_order: int) -> NgramTable:
    """Return the n-grams of up to `max_order` words, the longest without backoff weights."""
    orders = table.orders[:max_order]
    last = orders[-1]
    shortest = NgramOrder(last.words, last.log_probs, np.zeros(len(last)))
    return NgramTable(table.words, (*orders[:-1], shortest))


def of_words(table: NgramTable, words: set[str]) -> NgramTable:
    """Return the n-grams of these words and of `<s>` and `</s>`.

    The probability of the other words is lost, not given to those that stay.
    """
    kept = words | {SENTENCE_START, SENTENCE_END}
    is_kept = np.array([word in kept for word in table.words])
    renumbered = np.cumsum(is_kept) - 1
    orders = []
    for order in table.orders:
        some = order.where(is_kept[order.words].all(axis=1))
        orders.append(NgramOrder(renumbered[some.words], some.log_probs, some.backoffs))
    texts = [word for word, stays in zip(table.words, is_kept, strict=True) if stays]
    return sorted_table(texts, orders)


def likeliest_words(table: NgramTable, count: int) -> set[str]:
    ranking = np.argsort(-table.orders[0].log_probs, kind="stable")
    ranked = (table.words[index] for index in ranking)
    real = [word for word in ranked if word not in (SENTENCE_START, SENTENCE_END)]
    return set(real[:count])


def entropy_pruned(table: NgramTable, threshold: float) -> NgramTable:
    """Return a table without n-grams whose loss raises perplexity by less than a threshold.

    The method is that of Stolcke, "Entropy-based Pruning of Backoff Language Models" (1998). It
    takes the relative entropy between the models with and without each n-gram. New backoff weights
    come last.

    `threshold` is a relative rise of the perplexity: 0 keeps all, 1e-8 to 1e-7 are usual.
    """
    orders = list(table.orders)
    for number in range(len(orders) - 1, 0, -1):
        current = NgramTable(table.words, tuple(orders))
        contexts = current.rows(orders[number].words[:, :-1])
        is_needed = np.zeros(len(orders[number]), bool)
        if number + 1 < len(orders):
            is_needed[current.rows(orders[number + 1].words[:, :-1])] = True
        losses, backoffs = _losses(current, number, contexts)
        keep = is_needed | (np.expm1(losses) >= threshold)
        after = _log_backoffs(current, number, contexts, keep)
        below = orders[number - 1]
        # Shift the old weights: a model that is not quite normalised keeps its scale.
        orders[number - 1] = NgramOrder(
            below.words, below.log_probs, below.backoffs + after - backoffs
        )
        orders[number] = orders[number].where(keep)
    return NgramTable(table.words, tuple(orders))


def _losses(table: NgramTable, number: int, contexts: IntArray) -> tuple[DoubleArray, DoubleArray]:
    """Return the relative entropy of each n-gram's loss, and the log backoffs of its order."""
    order = table.orders[number]
    size = len(table.orders[number - 1])
    shorter = table.log_probs_of(order.words[:, 1:])
    left, left_below = _left(order.log_probs, shorter, contexts, size)
    backoffs = np.log(left) - np.log(left_below)
    # Log backoff of the history without this n-gram.
    alone = np.log(left[contexts] + np.exp(order.log_probs)) - np.log(
        left_below[contexts] + np.exp(shorter)
    )
    change = np.exp(order.log_probs) * (shorter + alone - order.log_probs)
    change += left[contexts] * (alone - backoffs[contexts])
    return -np.exp(_history_log_probs(table, number))[contexts] * change, backoffs


def _log_backoffs(
    table: NgramTable, number: int, contexts: IntArray, keep: NDArray[np.bool_]
) -> DoubleArray:
    order = table.orders[number].where(keep)
    shorter = table.log_probs_of(order.words[:, 1:])
    size = len(table.orders[number - 1])
    left, left_below = _left(order.log_probs, shorter, contexts[keep], size)
    return np.asarray(np.log(left) - np.log(left_below))


def _left(
    log_probs: DoubleArray, shorter: DoubleArray, contexts: IntArray, size: int
) -> tuple[DoubleArray, DoubleArray]:
    """Return the probability that the n-grams of each history leave, by it and the shorter one."""
    left = 1 - np.bincount(contexts, np.exp(log_probs), size)
    left_below = 1 - np.bincount(contexts, np.exp(shorter), size)
    return left.clip(_LEAST_MASS), left_below.clip(_LEAST_MASS)


def _history_log_probs(table: NgramTable, number: int) -> DoubleArray:
    """Return the log probability of each history of an order, by the chain rule."""
    histories = table.orders[number - 1].words
    unigrams = table.orders[0].log_probs.copy()
    if SENTENCE_START in table.words and SENTENCE_END in table.words:
        # A sentence begins as often as one ends; models give <s> itself no probability.
        ends = unigrams[table.words.index(SENTENCE_END)]
        unigrams[table.words.index(SENTENCE_START)] = ends if math.isfinite(ends) else 0.0
    total = unigrams[histories[:, 0]]
    for length in range(2, histories.shape[1] + 1):
        total = total + table.log_probs_of(histories[:, :length])
    return np.asarray(total)
