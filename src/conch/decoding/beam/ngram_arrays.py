"""An n-gram as arrays: many words after many histories are scored at once, on any device."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from conch.decoding.beam.arrays import Array, indices, namespace
from conch.families.ngram.table import NgramTable

EMPTY_HISTORY = 0
UNKNOWN_WORD = -1


class NgramArrays(NamedTuple):
    """The n-gram as an automaton; its states are the histories that it tells apart.

    State 0 is the empty history, `1 + word` that of one word. A history that was never seen with
    a word after it passes to the next shorter one and pays its backoff. A tuple, so that compiled
    functions take it.
    """

    keys: Array
    """int64, sorted: `state * words + word` of every n-gram longer than one word, and a last one
    that is larger than any."""
    log_probs: Array
    """float32, one per key."""
    targets: Array
    """int32, one per key: the state after the word."""
    unigrams: Array
    """float64 `[words]`."""
    backoffs: Array
    """float32 `[states]`."""
    shorter: Array
    """int64 `[states]`: without the earliest word."""
    order: int
    """Words of the longest n-gram."""
    oov_log_prob: float
    """What a word costs that is not known; after it the history is empty."""


def ngram_arrays(ngrams: NgramTable, oov_log_prob: float) -> NgramArrays:
    """Build the tables, as numpy's.

    Args:
        ngrams: as read.
        oov_log_prob: natural log probability of an unknown word.
    """
    size = len(ngrams.words)
    first, *longer = ngrams.orders
    backoffs, shorter = [np.zeros(1, np.float32)], [np.zeros(1, np.int64)]
    # Of the order before: where each n-gram of it is found, sorted, and its state.
    backoffs.append(first.backoffs.astype(np.float32))
    shorter.append(np.zeros(size, np.int64))
    states = 1 + size
    found: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
    arcs = []
    for index, order in enumerate(longer):
        words = order.words
        keys = _states(words[:, :-1], found, size) * size + words[:, -1]
        by_key = np.argsort(keys, kind="stable")
        suffixes = _states(words[:, 1:], found, size)
        if index == len(longer) - 1:
            targets = suffixes
        else:
            targets = states + np.arange(len(words))
            found.append((keys[by_key], targets[by_key]))
            states += len(words)
            backoffs.append(order.backoffs.astype(np.float32))
            shorter.append(suffixes)
        arcs.append((keys, order.log_probs.astype(np.float32), targets))
    last = (np.full(1, np.iinfo(np.int64).max), np.zeros(1, np.float32), np.zeros(1, np.int64))
    keys, log_probs, targets = (np.concatenate(part) for part in zip(*arcs, last, strict=True))
    by_key = np.argsort(keys, kind="stable")
    return NgramArrays(
        keys=keys[by_key],
        log_probs=log_probs[by_key],
        targets=targets[by_key].astype(np.int32),
        unigrams=first.log_probs.astype(np.float32).astype(np.float64),
        backoffs=np.concatenate(backoffs),
        shorter=np.concatenate(shorter),
        order=len(ngrams.orders),
        oov_log_prob=oov_log_prob,
    )


def _states(
    words: NDArray[np.int64],
    found: Sequence[tuple[NDArray[np.int64], NDArray[np.int64]]],
    size: int,
) -> NDArray[np.int64]:
    """Return the state of each history `[count, n]`, or of its longest ending that has one."""
    if not words.shape[1]:
        return np.zeros(len(words), np.int64)
    state = 1 + words[:, 0]
    known = np.ones(len(words), bool)
    for index in range(1, words.shape[1]):
        keys, targets = found[index - 1]
        wanted = state * size + words[:, index]
        place = np.searchsorted(keys, wanted).clip(max=max(0, len(keys) - 1))
        known &= keys[place] == wanted if len(keys) else False
        state = targets[place] if len(keys) else state
    if not known.all():
        state = state.copy()
        state[~known] = _states(words[~known, 1:], found, size)
    return state


def score_words(tables: NgramArrays, state: Array, word: Array) -> tuple[Array, Array]:
    """Return the natural log probabilities of words after histories, and the states after them.

    Args:
        tables: of the model.
        state: int64 `[M]`.
        word: int64 `[M]`: ids, or -1 for one that is not known.

    Returns:
        float64 `[M]` and int64 `[M]`.
    """
    xp, size = namespace(word), tables.unigrams.shape[0]
    known = word >= 0
    word = word.clip(0)
    log_prob, target = tables.unigrams.take(word), word + 1
    # Every length of history at once; then the longest that is known with the word counts.
    states = [state]
    for _ in range(tables.order - 2):
        states.append(tables.shorter.take(states[-1]))
    histories = xp.stack(states)
    keys = histories * size + word
    places = xp.searchsorted(tables.keys, keys)
    # The empty history has no keys: those below `size` do not exist.
    hits = tables.keys.take(places) == keys
    log_probs, targets = tables.log_probs.take(places), indices(tables.targets.take(places))
    backoffs = tables.backoffs.take(histories)
    for level in range(tables.order - 2, -1, -1):
        log_prob = xp.where(hits[level], log_probs[level], log_prob + backoffs[level])
        target = xp.where(hits[level], targets[level], target)
    return xp.where(known, log_prob, tables.oov_log_prob), xp.where(known, target, EMPTY_HISTORY)
