"""Turn an n-gram model into a transducer: the G of a decoding graph."""

import numpy as np

from conch.component.arrays import DoubleArray, IntArray
from conch.decoding.graph.fst_arrays import FstArrays, fst_arrays
from conch.decoding.ngram.table import SENTENCE_END, SENTENCE_START, NgramTable


def grammar(table: NgramTable, word_bonus: float) -> FstArrays:
    """Return the acceptor of sentences, with epsilon arcs that back off to a shorter history.

    It also has paths that back off although the longer n-gram exists. They count if they are
    cheaper; every decoder with static n-gram graphs accepts that.

    States are histories; state 0 is the empty one. Labels are the words' indices plus one, and 0 on
    arcs that back off. Sentences begin after `<s>`. Arcs of `</s>` lead to the only final state,
    the last one. `word_bonus`, in nats, makes every word except `</s>` cheaper.
    """
    end, states = _states(table)
    start_word = table.words.index(SENTENCE_START)
    end_word = table.words.index(SENTENCE_END)
    parts: list[tuple[IntArray, ...]] = []
    costs = []
    for number, (order, contexts) in enumerate(zip(table.orders, table.contexts(), strict=True)):
        sources = states[number - 1][contexts] if number else np.zeros(len(order), np.int64)
        last = order.words[:, -1]
        targets, skipped = _targets(table, states, order.words)
        cost = -order.log_probs - skipped - word_bonus
        is_end = last == end_word
        targets = np.where(is_end, end, targets)
        cost = np.where(is_end, -order.log_probs, cost)
        keep = (last != start_word) & np.isfinite(cost)
        parts.append((sources[keep], last[keep] + 1, targets[keep]))
        costs.append(cost[keep])
        if number + 1 < len(table.orders):
            rows = np.flatnonzero(states[number] >= 0)
            shorter, skipped = _targets(table, states, order.words[rows, 1:])
            parts.append((states[number][rows], np.zeros(len(rows), np.int64), shorter))
            costs.append(-order.backoffs[rows] - skipped)
    sources, labels, targets = (np.concatenate(item) for item in zip(*parts, strict=True))
    # Leave out backoff weights on the way to the start: every sentence has the same.
    begin, _ = _targets(table, states, np.array([[start_word]]))
    return fst_arrays(
        end + 1,
        sources,
        labels,
        labels,
        np.concatenate(costs),
        targets,
        finals={end: 0.0},
        start=int(begin[0]),
    )


def _states(table: NgramTable) -> tuple[int, list[IntArray]]:
    """Return the number of histories and each n-gram's state, -1 if nothing follows it."""
    count = 1
    states = []
    for order, contexts in zip(table.orders[:-1], table.contexts()[1:], strict=True):
        is_history = np.zeros(len(order), bool)
        is_history[contexts] = True
        states.append(np.where(is_history, np.cumsum(is_history) - 1 + count, -1))
        count += int(is_history.sum())
    states.append(np.full(len(table.orders[-1]), -1))
    return count, states


def _targets(
    table: NgramTable, states: list[IntArray], ngrams: IntArray
) -> tuple[IntArray, DoubleArray]:
    """Return the state after each n-gram, and the log backoff weights on the way to it.

    The state is the longest ending of the n-gram that is a history. Longer endings that nothing
    follows are skipped, and their backoff weights add up.
    """
    targets = np.full(len(ngrams), -1)
    skipped = np.zeros(len(ngrams))
    for length in range(ngrams.shape[1], 0, -1):
        open_ = np.flatnonzero(targets < 0)
        rows = table.rows(ngrams[open_, ngrams.shape[1] - length :])
        found = np.full(len(rows), -1)
        found[rows >= 0] = states[length - 1][rows[rows >= 0]]
        targets[open_] = found
        left = (rows >= 0) & (found < 0)
        skipped[open_[left]] += table.orders[length - 1].backoffs[rows[left]]
    return np.where(targets < 0, 0, targets), skipped
