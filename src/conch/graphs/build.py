"""Build decoding graphs: token, lexicon and grammar in one weighted transducer.

The method is that of Mohri, Pereira and Riley, "Weighted finite-state transducers in speech
recognition" (2002), with the token transducer of Miao, Gowayyed and Metze, "EESEN" (2015). Blanks
and repetitions are in the graph, so that a frame of CTC is an arc. kaldifst computes
T ∘ min(det(L ∘ G)).

Input labels are units plus one, then `end`, which closes the sentence after the last frame. Without
this label, paths at the end of a sentence would look better while a stream goes on.
"""

import json
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import kaldifst
import numpy as np

from conch.component import DoubleArray, IntArray
from conch.decoding.graph import FORMAT
from conch.decoding.graph.fst_arrays import (
    FstArrays,
    from_kaldifst,
    fst_arrays,
    to_kaldifst,
    write_fst,
)
from conch.decoding.ngram.table import SENTENCE_END, SENTENCE_START, NgramTable, with_words
from conch.decoding.units import BLANK, Units
from conch.graphs.lexicon import Lexicon, letters_of, own_spellings, unit_spellings
from conch.graphs.pruning import entropy_pruned, likeliest_words, of_order, of_words
from conch.whole import made_whole
from conch.wire.errors import ConfigError

EPSILON = 0
"""Label of arcs that read or write nothing."""
DICTIONARY_LOG_PROB = -16.0
"""Least natural log of the unigram probability of the words of a dictionary: they are many, and few
of them are said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphConfig:
    """Settings of a graph; each limit makes it smaller and less accurate."""

    prune: float = 1e-7
    """Least relative rise of perplexity by the loss of an n-gram that stays; 0 keeps all."""
    max_order: int = 0
    """Words of the longest n-grams; 0 for those of the n-gram model."""
    max_words: int = 0
    """Number of most frequent words to keep besides those that are added; 0 keeps all."""
    word_bonus: float = 0.0
    oov_log_prob: float = -10.0
    """Least natural log of the unigram probability of `more_words`."""

    def __post_init__(self) -> None:
        if not 0 <= self.prune < 1:
            raise ConfigError(f"prune takes 0 up to, not including, 1; is: {self.prune}")
        for name in ("max_order", "max_words"):
            if getattr(self, name) < 0:
                raise ConfigError(f"{name} takes 0 or more; is: {getattr(self, name)}")
        if not math.isfinite(self.word_bonus):
            raise ConfigError(f"word_bonus takes a finite number; is: {self.word_bonus}")
        if not -math.inf < self.oov_log_prob <= 0:
            raise ConfigError(f"oov_log_prob takes a number up to 0; is: {self.oov_log_prob}")


@dataclass(frozen=True, slots=True)
class GraphReport:
    words: int
    """Words in the graph: with a spelling, in the n-gram model or added to it."""
    added: int
    """Words of `more_words` and `dictionary` that the n-gram model lacks."""
    without_spelling: int
    """Words of the n-gram model that nothing spells."""
    unknown: int
    """Words of the lexicon that neither the n-gram model nor `more_words` nor `dictionary` has."""
    ngrams: tuple[int, ...]
    """Number of n-grams of each order before pruning."""
    kept_ngrams: tuple[int, ...]
    """Number of the model's n-grams of each order in the graph."""
    states: int
    arcs: int


def build_graph(
    path: Path,
    units: Units,
    table: NgramTable,
    lexicon: Lexicon | None = None,
    config: GraphConfig | None = None,
    progress: Callable[[str], None] = lambda text: None,
    *,
    more_words: Lexicon = (),
    dictionary: Lexicon = (),
) -> GraphReport:
    """Write a decoding graph, over a file that is there.

    A word must be in both lexicon and n-grams, except those of `more_words` and `dictionary`. There
    is no unknown word: every sound becomes words of the graph.

    Without a `lexicon`, words are spelled as they are written. `more_words` are expected: those
    that the n-grams lack become unigrams of `oov_log_prob`, before which words count by backoff
    weights alone; the unigrams of the others are raised to it. Words of `dictionary` that the
    n-grams lack become unigrams of `DICTIONARY_LOG_PROB`, and the others stay. `progress` is called
    with a text for each step.
    """
    config = config or GraphConfig()
    letters_of(units.vocab)
    lexicon = own_spellings(table.words, units) if lexicon is None else lexicon
    lexicon = tuple(dict.fromkeys((*lexicon, *more_words, *dictionary)))
    words, own, listed = (
        {word for word, _ in spellings} for spellings in (lexicon, more_words, dictionary)
    )
    own_added = sorted(own.difference(table.words))
    listed_added = sorted(listed.difference(table.words, own))
    known = words & set(table.words) - {SENTENCE_START, SENTENCE_END}
    if not known:
        raise ConfigError("no word of the lexicon is in the language model")
    small = _limited(table, known, (own | listed) & known, config, progress)
    kept_ngrams = tuple(map(len, small.orders))
    small = with_words(small, listed_added, DICTIONARY_LOG_PROB)
    small = with_words(small, own_added, config.oov_log_prob)
    small = _raised(small, own & known, config.oov_log_prob)
    graph = _composed(units, small, lexicon, config.word_bonus, progress)
    progress(f"writing {len(graph.arcs)} arcs")
    _write(path, graph, units.vocab, small.words, config.word_bonus)
    return GraphReport(
        words=len(small.words) - 2,
        added=len(own_added) + len(listed_added),
        without_spelling=len(set(table.words) - words) - 2,
        unknown=len(words - known) - len(own_added) - len(listed_added),
        ngrams=tuple(map(len, table.orders)),
        kept_ngrams=kept_ngrams,
        states=len(graph.finals),
        arcs=len(graph.arcs),
    )


def _raised(table: NgramTable, words: set[str], log_prob: float) -> NgramTable:
    """Return a table in which unigrams of some words have at least a log probability."""
    first = table.orders[0]
    is_own = np.array([word in words for word in table.words])
    low = is_own & (first.log_probs < log_prob)
    unigrams = replace(first, log_probs=np.where(low, log_prob, first.log_probs))
    return NgramTable(table.words, (unigrams, *table.orders[1:]))


def _limited(
    table: NgramTable,
    known: set[str],
    wanted: set[str],
    config: GraphConfig,
    progress: Callable[[str], None],
) -> NgramTable:
    """Return the n-grams within the limits of a graph; `wanted` words stay beyond `max_words`."""
    small = of_words(table, known)
    if config.max_words and config.max_words < len(known):
        small = of_words(small, likeliest_words(small, config.max_words) | wanted)
    if config.max_order:
        small = of_order(small, config.max_order)
    if config.prune:
        progress(f"pruning {sum(map(len, small.orders))} n-grams")
        small = entropy_pruned(small, config.prune)
    return small


def _write(
    path: Path, graph: FstArrays, vocab: Sequence[str], words: Sequence[str], word_bonus: float
) -> None:
    described = json.dumps({"format": FORMAT, "word_bonus": word_bonus})
    # The blank needs a symbol: symbol tables refuse empty and repeated ones.
    inputs = ["<eps>", "<blank>", *vocab[1:], "<end>"]
    try:
        with made_whole(path) as made:
            write_fst(made, graph, symbols=((described, inputs), ("words", ["<eps>", *words])))
    except OSError as error:
        raise ConfigError(f"the graph {path} cannot be written: {error.strerror}") from error


def _composed(
    units: Units,
    table: NgramTable,
    lexicon: Lexicon,
    word_bonus: float,
    progress: Callable[[str], None],
) -> FstArrays:
    size = len(units.vocab)
    end = size + 1
    spellings = _spellings(units, table, lexicon)
    progress(f"composing {len(spellings)} spellings with {sum(map(len, table.orders))} n-grams")
    lexicon_fst = to_kaldifst(_lexicon_fst(end, spellings, table))
    grammar_fst = to_kaldifst(_with_backoff_label(grammar(table, word_bonus), table))
    kaldifst.arcsort(lexicon_fst, "olabel")
    kaldifst.arcsort(grammar_fst, "ilabel")
    graph = kaldifst.StdVectorFst(kaldifst.compose(lexicon_fst, grammar_fst))
    progress(f"determinising {graph.num_states} states")
    kaldifst.determinize_star(graph, use_log=True)
    progress(f"minimising {graph.num_states} states")
    kaldifst.minimize_encoded(graph)
    arrays = from_kaldifst(graph)
    arrays.arcs["ilabel"][arrays.arcs["ilabel"] > end] = EPSILON
    graph = to_kaldifst(arrays)
    kaldifst.arcsort(graph, "ilabel")
    progress(f"adding blanks and repetitions to {graph.num_states} states")
    graph = kaldifst.StdVectorFst(kaldifst.compose(_token_fst(size), graph))
    # The search with lattices relies on epsilons being first in every state.
    kaldifst.arcsort(graph, "ilabel")
    return from_kaldifst(graph)


def _spellings(
    units: Units, table: NgramTable, lexicon: Lexicon
) -> list[tuple[int, tuple[int, ...]]]:
    """Return word labels with input labels: units and, where needed, a disambiguation label.

    As in Kaldi, such a label closes a spelling that several words share or that begins another
    spelling. Otherwise the graph could not be determinised.
    """
    labels = {word: index + 1 for index, word in enumerate(table.words)}
    spelled = unit_spellings(tuple(item for item in lexicon if item[0] in labels), units)
    alike = Counter(spelling for _, spelling in spelled)
    beginnings = {spelling[:end] for spelling in alike for end in range(1, len(spelling))}
    first_extra = len(units.vocab) + 3  # after the units come `end` and the backoff
    seen: Counter[tuple[int, ...]] = Counter()
    labelled = []
    for word, spelling in spelled:
        inputs = [unit + 1 for unit in spelling]
        if alike[spelling] > 1 or spelling in beginnings:
            inputs.append(first_extra + seen[spelling])
            seen[spelling] += 1
        labelled.append((labels[word], tuple(inputs)))
    return labelled


def _lexicon_fst(
    end: int, spellings: Sequence[tuple[int, tuple[int, ...]]], table: NgramTable
) -> FstArrays:
    """Return the closure of the spellings as a flat loop, which the sentence's end leaves."""
    loop, final, next_state = 0, 1, 2
    rows = [
        (loop, end + 1, _backoff_word(table), loop),
        (loop, end, table.words.index(SENTENCE_END) + 1, final),
    ]
    for word, inputs in spellings:
        state = loop
        for index, label in enumerate(inputs):
            is_last = index == len(inputs) - 1
            target = loop if is_last else next_state
            next_state += not is_last
            rows.append((state, label, EPSILON if index else word, target))
            state = target
    sources, ilabels, olabels, targets = np.array(rows).T
    costs = np.zeros(len(rows))
    finals = {final: 0.0}
    return fst_arrays(
        next_state, sources, ilabels, olabels, costs, targets, finals=finals, start=loop
    )


def _with_backoff_label(fst: FstArrays, table: NgramTable) -> FstArrays:
    """Label the backoff arcs, because determinisation must not treat them as epsilons."""
    fst.arcs["olabel"][fst.arcs["olabel"] == table.words.index(SENTENCE_END) + 1] = EPSILON
    fst.arcs["ilabel"][fst.arcs["ilabel"] == EPSILON] = _backoff_word(table)
    return fst


def _backoff_word(table: NgramTable) -> int:
    return len(table.words) + 1


def _token_fst(vocab_size: int) -> Any:
    """Return CTC's topology: read labels with blanks and repetitions, write labels without.

    State u means that unit u was read last; state 0 is the blank.
    """
    token = kaldifst.StdVectorFst()
    for _ in range(vocab_size):
        token.add_state()
    token.start = BLANK
    end = vocab_size + 1
    for state in range(vocab_size):
        for unit in range(vocab_size):
            label = EPSILON if unit in (BLANK, state) else unit + 1
            token.add_arc(state, kaldifst.StdArc(unit + 1, label, 0.0, unit))
        token.add_arc(state, kaldifst.StdArc(end, end, 0.0, BLANK))
    token.set_final(BLANK, 0.0)
    kaldifst.arcsort(token, "olabel")
    return token


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
        matched = np.full(len(rows), -1)
        matched[rows >= 0] = states[length - 1][rows[rows >= 0]]
        targets[open_] = matched
        left = (rows >= 0) & (matched < 0)
        skipped[open_[left]] += table.orders[length - 1].backoffs[rows[left]]
    return np.where(targets < 0, 0, targets), skipped
