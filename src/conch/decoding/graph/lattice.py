"""N-best lists by a lattice: every arc near the best path, then distinct word sequences of it.

kaldi-decoder's own lattice decoder has no limit on active tokens, and takes minutes for a second
of noise; this one keeps to `max_active`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import kaldifst
import numpy as np
from numpy.typing import NDArray

from conch.component import DoubleArray, IntArray
from conch.decoding.graph.fst_arrays import FstArrays, FstFile, fst_arrays, to_kaldifst

_MAX_STATES = 10_000
"""Most states of a determinised lattice; a larger one is pruned more."""


@dataclass(frozen=True, slots=True)
class LatticePath:
    words: tuple[int, ...]
    """Output labels."""
    labels: tuple[int, ...]
    """Input labels, one a frame."""
    cost: float
    """Cost of graph and frames."""
    fst: Any
    """The path itself, from words to labels."""

    def frame_costs(self) -> list[float]:
        """Return what the graph and the frame cost for each label."""
        arcs, pairs = kaldifst.ArcIterator(self.fst, self.fst.start), []
        while not arcs.done:
            arc = arcs.value
            pairs.append((arc.olabel, float(arc.weight.value)))
            arcs = kaldifst.ArcIterator(self.fst, arc.nextstate)
        return path_costs(pairs)


def path_costs(arcs: Iterable[tuple[int, float]]) -> list[float]:
    """Return the cost of each arc that has a label, with those without one that lie before it.

    >>> path_costs([(0, 1.0), (7, 2.0), (0, 0.5), (0, 0.25), (8, 0.0), (0, 3.0)])
    [3.0, 3.75]
    """
    costs = []
    pending = 0.0
    for label, cost in arcs:
        pending += cost
        if label:
            costs.append(pending)
            pending = 0.0
    if costs:
        costs[-1] += pending
    return costs


@dataclass(frozen=True, slots=True)
class _Frame:
    """The states that are alive after a frame."""

    states: IntArray
    """int64 `[N]`: sorted."""
    costs: DoubleArray
    """float64 `[N]`: of the best path to each."""
    emitting: IntArray
    """int64 `[E]`: arcs from the frame before to this one."""
    sources: IntArray
    """int64 `[E]`: the tokens of the frame before that they leave."""
    epsilons: IntArray
    """int64 `[M]`: arcs within this frame that read nothing."""
    epsilon_sources: IntArray
    """int64 `[M]`: the states that they leave."""


class _Links(NamedTuple):
    """Arcs between tokens; a token is a state that is alive after a frame."""

    sources: IntArray
    """int64 `[N]`: the tokens that they leave."""
    targets: IntArray
    """int64 `[N]`: the tokens that they reach."""
    arcs: IntArray
    """int64 `[N]`: which arcs of the graph they are."""
    weights: DoubleArray
    """float64 `[N]`: cost, with that of the frame for an arc that reads one."""

    def kept(
        self, costs: DoubleArray, ahead: DoubleArray, limit: float, first: int, second: int
    ) -> "_Links":
        """Return those on paths up to a cost, with tokens counted through all frames.

        `costs` and `ahead`, float64, are of the best path to each token that links may leave, and
        from each that they may reach to the end. `first` and `second` tokens are before these
        frames.
        """
        keep = costs[self.sources] + self.weights + ahead[self.targets] <= limit
        return _Links(
            self.sources[keep] + first,
            self.targets[keep] + second,
            self.arcs[keep],
            self.weights[keep],
        )


@dataclass(frozen=True, slots=True)
class WordLattice:
    """The paths of a search near the best one."""

    paths: FstArrays
    """From words to input labels."""
    words: Any
    beam: float
    """Cost above the best path up to which there are paths."""

    def best_paths(self, nbest: int) -> list[LatticePath]:
        """Return the best word sequences, at most `nbest`, best first, each with its best path."""
        transducer = _loaded(self.paths, output_is_word=False)
        kaldifst.arcsort(transducer, "ilabel")
        paths = kaldifst.convert_nbest_to_vector(kaldifst.shortest_path(self.words, nbest))
        sequences = [kaldifst.get_linear_symbol_sequence(path)[1] for path in paths]
        aligned = [_aligned(transducer, words) for words in sequences]
        return sorted(aligned, key=lambda item: item.cost)


def word_lattice(
    fst: FstFile, costs: DoubleArray, *, beam: float, max_active: int, lattice_beam: float
) -> WordLattice | None:
    """Return the paths near the best one; None where no path ends.

    In every state of `fst` arcs without input come first. `costs` are float64 `[T, labels]`: of
    input label 1 and following in each frame. A path may cost `beam` more than the best of a frame,
    and `max_active` states are alive there. A path of the lattice may cost `lattice_beam` more than
    the best path.
    """
    frames = _search(fst, costs, beam, max_active)
    lattice = _pruned(fst, frames, costs, lattice_beam)
    while lattice is not None:
        words = _determinised(lattice)
        if words is not None:
            return WordLattice(lattice, words, lattice_beam)
        lattice_beam /= 2
        lattice = _pruned(fst, frames, costs, lattice_beam)
    return None


def _search(fst: FstFile, costs: DoubleArray, beam: float, max_active: int) -> list[_Frame]:
    """Return the frames of a search, one before the first frame of `costs` included."""
    none = np.zeros(0, np.int64)
    frames = [_closed(fst, np.array([fst.start]), np.zeros(1), none, none, beam)]
    for row in costs:
        frames.append(_next_frame(fst, frames[-1], row, beam, max_active))
    return frames


def _next_frame(
    fst: FstFile, last: _Frame, costs: DoubleArray, beam: float, max_active: int
) -> _Frame:
    limit = last.costs.min() + beam
    if len(last.costs) > max_active:
        limit = min(limit, np.partition(last.costs, max_active)[max_active])
    alive = np.flatnonzero(last.costs <= limit)
    some = fst.states[last.states[alive]]
    epsilons = some["input_epsilons"].astype(np.int64)
    arcs, owners = _ranges(some["first"] + epsilons, some["arcs"] - epsilons)
    labels = fst.arcs["ilabel"][arcs]
    totals = last.costs[alive][owners] + fst.arcs["cost"][arcs] + costs[labels - 1]
    keep = totals <= totals.min() + beam
    arcs, sources, totals = arcs[keep], alive[owners[keep]], totals[keep]
    states, best = _best(fst.arcs["target"][arcs].astype(np.int64), totals)
    return _closed(fst, states, best, arcs, sources, beam)


def _closed(
    fst: FstFile,
    states: IntArray,
    costs: DoubleArray,
    emitting: IntArray,
    sources: IntArray,
    beam: float,
) -> _Frame:
    """Follow arcs without input until nothing gets cheaper."""
    limit = costs.min() + beam
    fresh, fresh_costs = states, costs
    taken, taken_from = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    while len(fresh):
        some = fst.states[fresh]
        arcs, owners = _ranges(some["first"], some["input_epsilons"])
        totals = fresh_costs[owners] + fst.arcs["cost"][arcs]
        keep = np.flatnonzero(totals <= limit)
        if not len(keep):
            break
        arcs = arcs[keep]
        taken.append(arcs)
        taken_from.append(fresh[owners[keep]])
        reached, totals = _best(fst.arcs["target"][arcs].astype(np.int64), totals[keep])
        indices = np.searchsorted(states, reached).clip(0, len(states) - 1)
        is_better = (states[indices] != reached) | (totals < costs[indices])
        fresh, fresh_costs = reached[is_better], totals[is_better]
        states, costs = _best(np.append(states, fresh), np.append(costs, fresh_costs))
    epsilons, indices = np.unique(np.concatenate(taken), return_index=True)
    return _Frame(states, costs, emitting, sources, epsilons, np.concatenate(taken_from)[indices])


def _pruned(
    fst: FstFile, frames: list[_Frame], costs: DoubleArray, lattice_beam: float
) -> FstArrays | None:
    """Return the arcs on paths near the best, from words to input labels; None without a path."""
    last = frames[-1]
    finals = fst.states["final"][last.states].astype(np.float64)
    best = float((last.costs + finals).min())
    if not np.isfinite(best):
        return None
    links = _links(fst, frames, costs, finals, best + lattice_beam)
    return _lattice(fst, frames, links, finals)


def _links(
    fst: FstFile, frames: list[_Frame], costs: DoubleArray, finals: DoubleArray, limit: float
) -> _Links:
    """Return the links on paths up to a cost, found from the last frame to the first.

    The links are between tokens counted through all frames. `finals` are float64 `[N]`: cost of
    ending in each token of the last frame.
    """
    offsets = _offsets(frames)
    parts = []
    ahead = finals  # cost of the best path from each token of the frame to the end
    for number in range(len(frames) - 1, -1, -1):
        frame = frames[number]
        # Those without input leave states of this frame, the others tokens of the one before.
        own_sources = np.searchsorted(frame.states, frame.epsilon_sources)
        within = _links_to(fst, frame, frame.epsilons, own_sources)
        ahead = _closed_backward(within, ahead)
        parts.append(within.kept(frame.costs, ahead, limit, offsets[number], offsets[number]))
        if number:
            before = frames[number - 1]
            between = _links_to(fst, frame, frame.emitting, frame.sources, costs[number - 1])
            parts.append(
                between.kept(before.costs, ahead, limit, offsets[number - 1], offsets[number])
            )
            earlier = np.full(len(before.states), np.inf)
            np.minimum.at(earlier, between.sources, between.weights + ahead[between.targets])
            ahead = earlier
    return _Links(*map(np.concatenate, zip(*parts, strict=True)))


def _offsets(frames: list[_Frame]) -> IntArray:
    """Return where the tokens of each frame begin when those of all are counted through."""
    return np.cumsum([0, *(len(frame.states) for frame in frames[:-1])])


def _links_to(
    fst: FstFile, frame: _Frame, arcs: IntArray, sources: IntArray, costs: DoubleArray | None = None
) -> _Links:
    weights = fst.arcs["cost"][arcs].astype(np.float64)
    if costs is not None:
        weights += costs[fst.arcs["ilabel"][arcs] - 1]
    return _Links(sources, np.searchsorted(frame.states, fst.arcs["target"][arcs]), arcs, weights)


def _closed_backward(links: _Links, ahead: DoubleArray) -> DoubleArray:
    """Return the costs to the end when links within the frame may be taken first."""
    while True:  # as often as arcs without input follow each other
        closer = ahead.copy()
        np.minimum.at(closer, links.sources, links.weights + ahead[links.targets])
        if np.array_equal(closer, ahead):
            return ahead
        ahead = closer


def _lattice(fst: FstFile, frames: list[_Frame], links: _Links, finals: DoubleArray) -> FstArrays:
    """Return links as a transducer whose states are the tokens that they connect."""
    (ends,) = np.isfinite(finals).nonzero()
    start = int(np.searchsorted(frames[0].states, fst.start))
    tokens = np.concatenate([links.sources, links.targets, [start], ends + _offsets(frames)[-1]])
    used, numbers = np.unique(tokens, return_inverse=True)
    sources, targets, (start_state,), end_states = np.split(
        numbers, np.cumsum([len(links.sources), len(links.targets), 1])
    )
    return fst_arrays(
        len(used),
        sources,
        fst.arcs["olabel"][links.arcs].astype(np.int64),
        fst.arcs["ilabel"][links.arcs].astype(np.int64),
        links.weights,
        targets,
        finals=dict(zip(end_states.tolist(), finals[ends].tolist(), strict=True)),
        start=int(start_state),
    )


def _determinised(lattice: FstArrays) -> Any:
    """Return the word sequences of a lattice, each once; None if there are too many."""
    words = _loaded(lattice, output_is_word=True)
    try:
        kaldifst.determinize_star(words, max_states=_MAX_STATES)
    except RuntimeError:  # raised at its limit
        return None
    return words


def _loaded(lattice: FstArrays, *, output_is_word: bool) -> Any:
    if output_is_word:
        arcs = lattice.arcs.copy()
        arcs["olabel"] = arcs["ilabel"]
        lattice = replace(lattice, arcs=arcs)
    fst = to_kaldifst(lattice)
    kaldifst.connect(fst)
    return fst


def _aligned(transducer: Any, words: list[int]) -> LatticePath:
    linear = kaldifst.make_linear_acceptor(words)
    best = kaldifst.shortest_path(kaldifst.compose(linear, transducer))
    _, _, labels, weight = kaldifst.get_linear_symbol_sequence(best)
    return LatticePath(tuple(words), tuple(labels), float(weight.value), best)


def _ranges(first: NDArray[Any], counts: NDArray[Any]) -> tuple[IntArray, IntArray]:
    """Return every number of ranges one after the other, and the range of each."""
    counts = counts.astype(np.int64)
    owners = np.repeat(np.arange(len(counts)), counts)
    before = np.cumsum(counts) - counts
    return first.astype(np.int64)[owners] + np.arange(len(owners)) - before[owners], owners


def _best(states: IntArray, costs: DoubleArray) -> tuple[IntArray, DoubleArray]:
    """Return the different states, sorted, and the least cost of each."""
    if not len(states):
        return states, costs
    order = np.argsort(states)
    states, costs = states[order], costs[order]
    starts = np.concatenate([[0], np.flatnonzero(states[1:] != states[:-1]) + 1])
    return states[starts], np.minimum.reduceat(costs, starts)
