"""Compact lattices: each word sequence once, with the costs and the units of its best path.

The determinisation is that of Povey et al. (2012, "Generating exact lattices in the WFST
framework", ICASSP). A state is a set of states of the search's lattice, each with the rest of its
weight. Weights hold units too, which kaldifst cannot determinise.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter
from heapq import heappop, heappush
from itertools import takewhile
from math import inf, isfinite
from operator import add, itemgetter
from typing import NamedTuple

import numpy as np

from conch.component import DoubleArray
from conch.decoding.graph.fst_arrays import FstArrays

MAX_STATES = 10_000
MAX_LABELS = 300_000
"""Units in all arcs together, about a megabyte of text; a larger lattice is pruned more."""
MIN_BEAM = 0.01
"""Below it, only the best path is left."""
_DELTA = 1e-4
"""Weights that differ less are the same."""


class Weight(NamedTuple):
    """The cost of a path, and its input labels."""

    cost: float
    """Cost of the graph plus the scaled acoustic one, by which paths are compared."""
    graph: float
    acoustic: float
    """Acoustic cost, unscaled."""
    labels: tuple[int, ...]
    """Input labels, one a frame."""

    def then(self, other: "Weight") -> "Weight":
        """Return the weight of a path and the one after it."""
        return Weight(*map(add, self, other))

    def after(self, first: "Weight") -> "Weight":
        """Return the weight of the rest of a path that begins with `first`."""
        return Weight(
            self.cost - first.cost,
            self.graph - first.graph,
            self.acoustic - first.acoustic,
            self.labels[len(first.labels) :],
        )


ONE = Weight(0.0, 0.0, 0.0, ())


class Arc(NamedTuple):
    source: int
    target: int
    word: int
    weight: Weight


@dataclass(frozen=True, slots=True)
class CompactLattice:
    """An acceptor of words; state 0 is the start, and no arc leads to a lower state."""

    arcs: tuple[Arc, ...]
    """Arcs in the order of the states that they leave."""
    finals: dict[int, Weight]

    def to_text(self, words: Sequence[str]) -> str:
        """Return Kaldi's text form: a line `from to word graph,acoustic,labels` for each arc.

        Lines `state graph,acoustic,labels` are of states in which a path may end. Labels are joined
        by `_`. `words` are texts by their labels.
        """
        lines = [
            (arc.source, f"{arc.source}\t{arc.target}\t{words[arc.word]}\t{_written(arc.weight)}\n")
            for arc in self.arcs
        ]
        lines += [(state, f"{state}\t{_written(item)}\n") for state, item in self.finals.items()]
        return "".join(line for _, line in sorted(lines, key=itemgetter(0)))


def _written(weight: Weight) -> str:
    labels = "_".join(map(str, weight.labels))
    return f"{weight.graph:.4f},{weight.acoustic:.4f},{labels}"


def linear_lattice(words: Sequence[int], weight: Weight) -> CompactLattice:
    """Return the lattice of one path; all of its weight is at the end."""
    arcs = tuple(Arc(state, state + 1, word, ONE) for state, word in enumerate(words))
    return CompactLattice(arcs, {len(words): weight})


def compact_lattice(
    paths: FstArrays,
    costs: DoubleArray,
    num_frames: int,
    acoustic_scale: float,
    beam: float,
    max_labels: int = MAX_LABELS,
) -> CompactLattice | None:
    """Return the lattice of a search with each word sequence once; None if it is too large.

    `paths` lead from words to input labels, without cycles. `costs` are float64 `[T, labels]`: of
    input label 1 and following in each frame, scaled by `acoustic_scale`. Frames after `num_frames`
    are the end, and are left out. A word sequence may cost `beam` more than the best path. All arcs
    together have at most `max_labels` input labels.
    """
    raw = _Raw(paths, costs, num_frames, acoustic_scale, beam)
    least = raw.ahead[paths.start]
    numbers: dict[_Key, int] = {}
    subsets: list[_Subset] = []
    reached: list[float] = []  # cost of the best path to each
    arcs: list[Arc] = []
    finals: dict[int, Weight] = {}
    num_labels = 0

    def number_of(subset: _Subset, cost: float) -> int:
        key = tuple(
            (state, round(item.cost / _DELTA), item.labels)
            for state, item in sorted(subset.items())
        )
        if key not in numbers:
            numbers[key] = len(subsets)
            subsets.append(subset)
            reached.append(cost)
            heappush(waiting, (raw.position(subset), numbers[key]))
        return numbers[key]

    # In the order of the lattice: the cost of a state is known only after all arcs to it.
    waiting: list[tuple[int, int]] = []
    order: list[int] = []
    number_of({paths.start: ONE}, 0.0)
    while waiting:
        _, source = heappop(waiting)
        order.append(source)
        spread, final = _spread(raw, subsets[source])
        if final is not None and reached[source] + final.cost <= least + beam + _DELTA:
            finals[source] = final
            num_labels += len(final.labels)
        for word, items in sorted(spread.items()):
            ahead = {state: item.cost + raw.ahead[state] for state, item in items.items()}
            limit = least + beam + _DELTA - reached[source]
            kept = {state: item for state, item in items.items() if ahead[state] <= limit}
            if not kept:
                continue
            common = _common(list(kept.values()))
            rest = {state: item.after(common) for state, item in kept.items()}
            target = number_of(rest, reached[source] + common.cost)
            reached[target] = min(reached[target], reached[source] + common.cost)
            arcs.append(Arc(source, target, word, common))
            num_labels += len(common.labels)
            if len(subsets) > MAX_STATES or num_labels > max_labels:
                return None
    return _connected(arcs, finals, order)


_Subset = dict[int, Weight]
"""States of the search's lattice, and the rest of the weights of the paths to them."""
_Key = tuple[tuple[int, int, tuple[int, ...]], ...]


def _spread(raw: "_Raw", subset: _Subset) -> tuple[dict[int, _Subset], Weight | None]:
    """Return the states that each word leads to, and the weight of an end without a word."""
    targets: dict[int, _Subset] = defaultdict(dict)
    final: Weight | None = None
    for state, begun in subset.items():
        steps, end = raw.steps(state)
        for word, target, weight in steps:
            onward = begun.then(weight)
            targets[word][target] = min(targets[word].get(target, onward), onward)
        if end is not None and (final is None or begun.then(end) < final):
            final = begun.then(end)
    return targets, final


def _common(weights: Sequence[Weight]) -> Weight:
    """Return the least weight, with the labels that all begin with."""
    first, last = min(item.labels for item in weights), max(item.labels for item in weights)
    pairs = zip(first, last, strict=False)
    shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    return min(weights)._replace(labels=first[:shared])


def _connected(
    arcs: Sequence[Arc], finals: dict[int, Weight], order: Sequence[int]
) -> CompactLattice:
    """Return a lattice of the states that reach an end, numbered in an order of the arcs."""
    useful = set(finals)
    leaving: dict[int, list[int]] = defaultdict(list)
    for arc in arcs:
        leaving[arc.source].append(arc.target)
    for state in reversed(order):
        if not useful.isdisjoint(leaving[state]):
            useful.add(state)
    kept = (state for state in order if state in useful)
    numbers = {state: number for number, state in enumerate(kept)}
    numbered = [
        Arc(numbers[arc.source], numbers[arc.target], arc.word, arc.weight)
        for arc in arcs
        if arc.source in useful and arc.target in useful
    ]
    ends = {numbers[state]: weight for state, weight in finals.items()}
    return CompactLattice(tuple(sorted(numbered, key=lambda arc: arc[:3])), ends)


class _Raw:
    """The lattice of a search, with its costs apart."""

    def __init__(
        self,
        paths: FstArrays,
        costs: DoubleArray,
        num_frames: int,
        acoustic_scale: float,
        beam: float,
    ) -> None:
        sorter = TopologicalSorter[int]({state: () for state in range(len(paths.finals))})
        for source, target in zip(paths.sources, paths.arcs["target"], strict=True):
            sorter.add(int(target), int(source))
        self._order = [*sorter.static_order()]
        self._arcs: list[list[tuple[int, int, Weight]]] = [[] for _ in self._order]
        """Word, target and weight of each arc, by state."""
        self._finals = paths.finals.astype(np.float64).tolist()
        self.ahead = [inf] * len(self._order)
        """Cost of the best path from each state to the end."""
        self._steps: dict[int, tuple[list[tuple[int, int, Weight]], Weight | None]] = {}
        self._position = {state: position for position, state in enumerate(self._order)}
        frames = [0] * len(self._order)
        first = paths.first.tolist()
        rows = paths.arcs.tolist()
        for state in self._order:
            for word, label, cost, target in rows[first[state] : first[state + 1]]:
                frame = frames[state]
                frames[target] = frame + bool(label)
                is_acoustic = label and frame < num_frames
                acoustic = float(costs[frame, label - 1]) if is_acoustic else 0.0
                read = (label,) if is_acoustic else ()
                weight = Weight(cost, cost - acoustic, acoustic / acoustic_scale, read)
                self._arcs[state].append((word, target, weight))
        for state in reversed(self._order):
            onward = (weight.cost + self.ahead[target] for _, target, weight in self._arcs[state])
            self.ahead[state] = min((self._finals[state], *onward))
        self._behind = [inf] * len(self._order)
        """Cost of the best path from the start to each state."""
        self._behind[paths.start] = 0.0
        for state in self._order:
            for _, target, weight in self._arcs[state]:
                cost = self._behind[state] + weight.cost
                self._behind[target] = min(self._behind[target], cost)
        self._limit = self.ahead[paths.start] + beam + _DELTA

    def position(self, states: Iterable[int]) -> int:
        """Return the first position of states in an order in which arcs lead forward."""
        return min(self._position[state] for state in states)

    def steps(self, start: int) -> tuple[list[tuple[int, int, Weight]], Weight | None]:
        """Return the next words from a state, by their best weights, and the end before a word."""
        if start not in self._steps:
            self._steps[start] = self._expanded(start)
        return self._steps[start]

    def _expanded(self, start: int) -> tuple[list[tuple[int, int, Weight]], Weight | None]:
        best: dict[int, Weight] = {start: ONE}
        words: dict[tuple[int, int], Weight] = {}
        final: Weight | None = None
        most = self._limit - self._behind[start]
        queue = [self._position[start]]
        while queue:  # in the order of the lattice: all arcs to a state are known before it
            state = self._order[heappop(queue)]
            begun = best[state]
            for word, target, weight in self._arcs[state]:
                if begun.cost + weight.cost + self.ahead[target] > most:
                    continue
                onward = begun.then(weight)
                if not word and target not in best:
                    heappush(queue, self._position[target])
                if word:
                    key = word, target
                    words[key] = min(words.get(key, onward), onward)
                else:
                    best[target] = min(best.get(target, onward), onward)
            if isfinite(self._finals[state]):
                end = begun.then(Weight(self._finals[state], self._finals[state], 0.0, ()))
                final = end if final is None else min(final, end)
        return [(*key, weight) for key, weight in words.items()], final
