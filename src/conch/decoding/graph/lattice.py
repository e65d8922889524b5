"""N-best lists by a lattice: every arc near the best path, then distinct word sequences of it.

kaldi-decoder's own lattice decoder has no limit on active tokens, and takes minutes for a second
of noise; this one keeps to `max_active`.
"""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import kaldifst
import numpy as np
from numpy.typing import NDArray

from conch.component.arrays import DoubleArray, IntArray
from conch.decoding.graph.fst_arrays import FstArrays, FstFile, fst_arrays, write_fst

_MAX_STATES = 10_000
"""Of a determinised lattice; a larger one is pruned more."""


@dataclass(frozen=True, slots=True)
class LatticePath:
    """A word sequence and its best path."""

    words: tuple[int, ...]
    """Output labels."""
    labels: tuple[int, ...]
    """Input labels, one a frame."""
    cost: float
    """Of graph and frames."""


@dataclass(frozen=True, slots=True)
class _Frame:
    """What is alive after a frame."""

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


def lattice_nbest(
    fst: FstFile,
    costs: DoubleArray,
    nbest: int,
    *,
    beam: float,
    max_active: int,
    lattice_beam: float,
) -> list[LatticePath]:
    """Return the best word sequences, best first; none where no path ends.

    Args:
        fst: the graph; in every state arcs without input come first.
        costs: float64 `[T, labels]`: of input label 1 and following in each frame.
        nbest: how many sequences at most.
        beam: cost above the best of a frame that a path may have.
        max_active: states alive in a frame.
        lattice_beam: cost above the best path that a path of the lattice may have.
    """
    frames = _search(fst, costs, beam, max_active)
    lattice = _pruned(fst, frames, costs, lattice_beam)
    words = None
    while lattice is not None and words is None:
        words = _determinised(lattice)
        if words is None:
            lattice_beam /= 2
            lattice = _pruned(fst, frames, costs, lattice_beam)
    if lattice is None:
        return []
    transducer = _loaded(lattice, output_is_word=False)
    kaldifst.arcsort(transducer, "ilabel")
    paths = kaldifst.convert_nbest_to_vector(kaldifst.shortest_path(words, nbest))
    found = [_aligned(transducer, _sequence(path)[0]) for path in paths]
    return sorted(found, key=lambda item: item.cost)


def _search(fst: FstFile, costs: DoubleArray, beam: float, max_active: int) -> list[_Frame]:
    none = np.zeros(0, np.int64)
    frames = [_closed(fst, np.array([fst.start]), np.zeros(1), none, none, beam)]
    for row in costs:
        last = frames[-1]
        limit = last.costs.min() + beam
        if len(last.costs) > max_active:
            limit = min(limit, np.partition(last.costs, max_active)[max_active])
        alive = np.flatnonzero(last.costs <= limit)
        some = fst.states[last.states[alive]]
        epsilons = some["input_epsilons"].astype(np.int64)
        arcs, owners = _ranges(some["first"] + epsilons, some["arcs"] - epsilons)
        labels = fst.arcs["ilabel"][arcs]
        totals = last.costs[alive][owners] + fst.arcs["cost"][arcs] + row[labels - 1]
        keep = totals <= totals.min() + beam
        arcs, sources, totals = arcs[keep], alive[owners[keep]], totals[keep]
        states, best = _best(fst.arcs["target"][arcs].astype(np.int64), totals)
        frames.append(_closed(fst, states, best, arcs, sources, beam))
    return frames


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
        places = np.searchsorted(states, reached).clip(0, len(states) - 1)
        is_better = (states[places] != reached) | (totals < costs[places])
        fresh, fresh_costs = reached[is_better], totals[is_better]
        states, costs = _best(np.append(states, fresh), np.append(costs, fresh_costs))
    epsilons, places = np.unique(np.concatenate(taken), return_index=True)
    return _Frame(states, costs, emitting, sources, epsilons, np.concatenate(taken_from)[places])


def _pruned(
    fst: FstFile, frames: list[_Frame], costs: DoubleArray, lattice_beam: float
) -> FstArrays | None:
    """Return the arcs on paths within a beam of the best one, from words to input labels."""
    last = frames[-1]
    ahead = fst.states["final"][last.states].astype(np.float64)
    best = float((last.costs + ahead).min())
    if not np.isfinite(best):
        return None
    limit = best + lattice_beam
    offsets = np.concatenate([[0], np.cumsum([len(frame.states) for frame in frames])])
    links = []
    for number in range(len(frames) - 1, -1, -1):
        frame, offset = frames[number], offsets[number]
        sources = np.searchsorted(frame.states, frame.epsilon_sources)
        targets = np.searchsorted(frame.states, fst.arcs["target"][frame.epsilons])
        weights = fst.arcs["cost"][frame.epsilons].astype(np.float64)
        while True:  # as often as arcs without input follow each other
            before = ahead.copy()
            np.minimum.at(ahead, sources, weights + ahead[targets])
            if np.array_equal(before, ahead):
                break
        keep = frame.costs[sources] + weights + ahead[targets] <= limit
        links.append((sources + offset, frame.epsilons, targets + offset, weights, keep))
        if not number:
            break
        previous = frames[number - 1]
        targets = np.searchsorted(frame.states, fst.arcs["target"][frame.emitting])
        weights = (
            fst.arcs["cost"][frame.emitting]
            + costs[number - 1, fst.arcs["ilabel"][frame.emitting] - 1]
        )
        through = weights + ahead[targets]
        keep = previous.costs[frame.sources] + through <= limit
        ahead = np.full(len(previous.states), np.inf)
        np.minimum.at(ahead, frame.sources, through)
        sources = frame.sources + offsets[number - 1]
        links.append((sources, frame.emitting, targets + offset, weights, keep))
    kept = [[item[flags] for item in parts] for *parts, flags in links]
    sources, arcs, targets, weights = (np.concatenate(item) for item in zip(*kept, strict=True))
    ends = np.isfinite(fst.states["final"][last.states])
    finals = np.flatnonzero(ends)
    start = int(np.searchsorted(frames[0].states, fst.start))
    used, numbers = np.unique(
        np.concatenate([sources, targets, [start], finals + offsets[-2]]), return_inverse=True
    )
    count = len(sources)
    return fst_arrays(
        len(used),
        numbers[:count],
        fst.arcs["olabel"][arcs].astype(np.int64),
        fst.arcs["ilabel"][arcs].astype(np.int64),
        weights,
        numbers[count : 2 * count],
        finals={
            int(state): float(fst.states["final"][last.states[place]])
            for state, place in zip(numbers[2 * count + 1 :], finals, strict=True)
        },
        start=int(numbers[2 * count]),
    )


def _determinised(lattice: FstArrays) -> Any:
    """Return the word sequences of a lattice, each once; None if there are too many."""
    words = _loaded(lattice, output_is_word=True)
    try:
        kaldifst.determinize_star(words, max_states=_MAX_STATES)
    except RuntimeError:  # what it raises at its limit
        return None
    return words


def _loaded(lattice: FstArrays, *, output_is_word: bool) -> Any:
    arcs = lattice.arcs
    if output_is_word:
        arcs = arcs.copy()
        arcs["olabel"] = arcs["ilabel"]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "lattice")
        write_fst(path, FstArrays(arcs, lattice.first, lattice.finals, lattice.start))
        fst = kaldifst.StdVectorFst(kaldifst.StdConstFst.read(str(path)))
    kaldifst.connect(fst)
    return fst


def _aligned(transducer: Any, words: list[int]) -> LatticePath:
    linear = kaldifst.make_linear_acceptor(words)
    best = kaldifst.shortest_path(kaldifst.compose(linear, transducer))
    _, labels, cost = _sequence(best)
    return LatticePath(tuple(words), tuple(labels), cost)


def _sequence(path: Any) -> tuple[list[int], list[int], float]:
    _, inputs, outputs, weight = kaldifst.get_linear_symbol_sequence(path)
    return inputs, outputs, float(weight.value)


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
