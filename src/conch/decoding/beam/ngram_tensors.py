"""An n-gram as tensors: many words after many histories are scored at once, on any device."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from conch.language.ngram_table import NgramTable

EMPTY_HISTORY = 0
UNKNOWN_WORD = -1


class NgramTensors(NamedTuple):
    """The n-gram as an automaton; its states are the histories that it tells apart.

    State 0 is the empty history, `1 + word` that of one word. A history that was never seen with
    a word after it passes to the next shorter one and pays its backoff. A tuple, so that compiled
    functions take it.
    """

    keys: Tensor
    """int64, sorted: `state * words + word` of every n-gram longer than one word, and a last one
    that is larger than any."""
    log_probs: Tensor
    """float32, one per key."""
    targets: Tensor
    """int32, one per key: the state after the word."""
    unigrams: Tensor
    """float32 `[words]`."""
    backoffs: Tensor
    """float32 `[states]`."""
    shorter: Tensor
    """int64 `[states]`: without the earliest word."""
    order: int
    """Words of the longest n-gram."""
    oov_log_prob: float
    """What a word costs that is not known; after it the history is empty."""


def ngram_tensors(ngrams: NgramTable, oov_log_prob: float, device: torch.device) -> NgramTensors:
    """Build the tables.

    Args:
        ngrams: as read.
        oov_log_prob: natural log probability of an unknown word.
        device: where they are to lie.
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
    return NgramTensors(
        keys=torch.from_numpy(keys[by_key]).to(device),
        log_probs=torch.from_numpy(log_probs[by_key]).to(device),
        targets=torch.from_numpy(targets[by_key].astype(np.int32)).to(device),
        unigrams=torch.from_numpy(first.log_probs.astype(np.float32)).to(device),
        backoffs=torch.from_numpy(np.concatenate(backoffs)).to(device),
        shorter=torch.from_numpy(np.concatenate(shorter)).to(device),
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


def score_words(tables: NgramTensors, state: Tensor, word: Tensor) -> tuple[Tensor, Tensor]:
    """Return the natural log probabilities of words after histories, and the states after them.

    Args:
        tables: of the model.
        state: int64 `[M]`.
        word: int64 `[M]`: ids, or -1 for one that is not known.

    Returns:
        float64 `[M]` and int64 `[M]`.
    """
    size = tables.unigrams.shape[0]
    known = word >= 0
    word = word.clamp(min=0)
    log_prob, target = tables.unigrams.take(word).double(), word + 1
    # Every length of history at once; then the longest that is known with the word counts.
    states = [state]
    for _ in range(tables.order - 2):
        states.append(tables.shorter.take(states[-1]))
    histories = torch.stack(states)
    keys = torch.add(word, histories, alpha=size)
    places = torch.searchsorted(tables.keys, keys)
    # The empty history has no keys: those below `size` do not exist.
    hits = tables.keys.take(places) == keys
    log_probs, targets = tables.log_probs.take(places).double(), tables.targets.take(places).long()
    backoffs = tables.backoffs.take(histories)
    for level in range(tables.order - 2, -1, -1):
        log_prob = torch.where(hits[level], log_probs[level], log_prob + backoffs[level])
        target = torch.where(hits[level], targets[level], target)
    return torch.where(known, log_prob, tables.oov_log_prob), torch.where(known, target, 0)
