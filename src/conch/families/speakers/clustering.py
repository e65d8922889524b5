"""Find out how many voices there are, and how each sounds; pure functions.

Pieces of audio are joined by average linkage (Sokal & Michener, 1958) of the cosine distances of
their embeddings, found by chains of nearest neighbours (Murtagh, 1983, "A survey of recent advances
in hierarchical clustering algorithms"). numpy does it in steps that are short, so that the threads
of a server go on meanwhile.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from conch.component import Array, FloatArray, IntArray, unit

DISTANCE, LINE_DISTANCE = 0.72, 0.62
"""Mean cosine distance from which on voices differ; the second over a telephone line."""
LEAST_VOICE_S, LEAST_VOICE_SHARE = 6.0, 0.1
"""Seconds of a voice's pieces, and their share of all: the less counts. Pieces overlap by half."""
MOST_PIECES = 4000
"""Pieces that are clustered, evenly chosen among more: those of 50 minutes of speech."""


class Merge(NamedTuple):
    """Two clusters become one; each is named by one of its pieces."""

    first: int
    second: int
    distance: float


def voices(
    embeddings: FloatArray,
    weights: Array,
    *,
    distance: float,
    least: float,
    fewest: int = 1,
    most: int | None = None,
) -> FloatArray:
    """Return the embedding of each voice, of unit length `[voices, size]`; none without pieces.

    `embeddings` are of unit length, float32 `[pieces, size]`. `weights`, `[pieces]`, say how much
    each piece counts, such as its length. Clusters from the mean cosine `distance` on are different
    voices. A voice has at least the share `least` of all weights, unless there are to be `fewest`
    voices; there are `most` at most.
    """
    if not len(embeddings):
        return embeddings
    chosen = np.unique(np.linspace(0, len(embeddings) - 1, MOST_PIECES).round().astype(int))
    embeddings, weights = embeddings[chosen], np.asarray(weights, np.float64)[chosen]
    merges = linkage(1 - embeddings @ embeddings.T)
    merged = sum(merge.distance < distance for merge in merges)
    floor = least * weights.sum()
    numbers = large_clusters(merges, weights, floor)
    wanted = min(max(numbers[merged], fewest, 1), most or len(embeddings), len(embeddings))
    while wanted not in numbers:
        floor = floor / 4 if floor > 1e-3 * least * weights.sum() else 0.0
        numbers = large_clusters(merges, weights, floor)
    if numbers[merged] != wanted:
        # The highest cut with so many voices.
        merged = len(merges) - numbers[::-1].index(wanted)
    labels = cut(len(embeddings), merges[:merged])
    kept = np.flatnonzero(np.bincount(labels, weights) >= floor)
    means = [weights[labels == label] @ embeddings[labels == label] for label in kept]
    return unit(np.asarray(means, np.float32))


def sure_voices(
    embeddings: FloatArray,
    weights: Array,
    is_sure: Array,
    *,
    is_line: bool,
    weight_of_second: float = 1.0,
    least_share: float = LEAST_VOICE_SHARE,
    fewest: int = 1,
    most: int | None = None,
) -> FloatArray:
    """Return the voices of the pieces that are sure, of all where none is; see `voices`.

    `is_sure` is bool `[pieces]`; `is_line` says whether they came over a telephone line. A voice
    has at least LEAST_VOICE_S, in pieces of `weight_of_second`, or `least_share` if that is less.
    """
    if not is_sure.any():
        is_sure = np.ones_like(is_sure)
    total_s = float(weights[is_sure].sum() / weight_of_second)
    return voices(
        embeddings[is_sure],
        weights[is_sure],
        distance=LINE_DISTANCE if is_line else DISTANCE,
        least=min(LEAST_VOICE_S / total_s, least_share),
        fewest=fewest,
        most=most,
    )


def one_to_one(scores: Array) -> dict[int, int]:
    """Return a column for each row, no two the same, highest scores first; -inf is no pair."""
    pairs: dict[int, int] = {}
    for index in np.argsort(-scores, axis=None, kind="stable").tolist():
        row, column = divmod(index, scores.shape[1])
        if np.isneginf(scores[row, column]):
            break
        if row not in pairs and column not in pairs.values():
            pairs[row] = column
    return pairs


def linkage(distances: FloatArray) -> list[Merge]:
    """Return the merges of average linkage, closest first; overwrite the symmetric `distances`."""
    count = len(distances)
    np.fill_diagonal(distances, np.inf)
    sizes = np.ones(count)
    is_left = np.ones(count, bool)
    chain: list[int] = []
    merges: list[Merge] = []
    while len(merges) < count - 1:
        if not chain:
            chain.append(int(is_left.argmax()))
        while True:
            last = chain[-1]
            nearest = int(distances[last].argmin())
            # Of several that are as near, the one before: the chain would run in a circle.
            if len(chain) > 1 and distances[last, chain[-2]] <= distances[last, nearest]:
                break
            chain.append(nearest)
        second, first = chain.pop(), chain.pop()
        merges.append(Merge(first, second, float(distances[first, second])))
        share = sizes[second] / (sizes[first] + sizes[second])
        joined = (1 - share) * distances[first] + share * distances[second]
        joined[~is_left] = np.inf
        joined[[first, second]] = np.inf
        distances[first] = distances[:, first] = joined
        distances[second] = distances[:, second] = np.inf
        sizes[first] += sizes[second]
        is_left[second] = False
    return sorted(merges, key=lambda merge: merge.distance)


def cut(count: int, merges: Sequence[Merge]) -> IntArray:
    """Return the cluster of each piece after merges, numbered by their first pieces."""
    roots = np.arange(count)
    for merge in merges:
        roots[_root(roots, merge.second)] = _root(roots, merge.first)
    clusters = np.array([_root(roots, piece) for piece in range(count)])
    _, firsts, labels = np.unique(clusters, return_index=True, return_inverse=True)
    order: IntArray = np.argsort(np.argsort(firsts))
    return order[labels]


def large_clusters(merges: Sequence[Merge], weights: Array, least: float) -> list[int]:
    """Return how many clusters have at least a weight, before the first merge and after each."""
    sizes = np.array(weights, np.float64)
    roots = np.arange(len(sizes))
    numbers = [int((sizes >= least).sum())]
    for merge in merges:
        first, second = _root(roots, merge.first), _root(roots, merge.second)
        before = int(sizes[first] >= least) + int(sizes[second] >= least)
        sizes[first] += sizes[second]
        roots[second] = first
        numbers.append(numbers[-1] - before + int(sizes[first] >= least))
    return numbers


def _root(roots: IntArray, cluster: int) -> int:
    while roots[cluster] != cluster:
        roots[cluster] = cluster = int(roots[roots[cluster]])
    return cluster
