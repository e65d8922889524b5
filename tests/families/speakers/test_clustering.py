"""Average linkage against scipy's, and how many voices there are."""

import numpy as np
import pytest
from scipy.cluster.hierarchy import fcluster
from scipy.cluster.hierarchy import linkage as scipys
from scipy.spatial.distance import squareform

from conch.component import unit
from conch.families.speakers import clustering
from conch.families.speakers.clustering import cut, large_clusters, linkage, voices

AUTO = {"distance": 0.5, "least": 0.1}


def pieces(count: int, *sizes: int, spread: float = 0.02) -> np.ndarray:
    """Return embeddings of voices that have nothing in common, so many of each, in random order."""
    random = np.random.default_rng(count)
    owners = random.permutation(np.repeat(np.arange(len(sizes)), sizes))
    return unit(
        (np.eye(16)[owners] + spread * random.standard_normal((len(owners), 16))).astype("f")
    )


@pytest.mark.parametrize("count", [1, 2, 3, 17, 200])
def test_linkage_is_scipys(count):
    random = np.random.default_rng(count)
    points = unit(random.standard_normal((count, 5)).astype(np.float32) + random.integers(0, 3))
    distances = 1 - points.astype(np.float64) @ points.T.astype(np.float64)
    np.fill_diagonal(distances, 0)
    merges = linkage(distances.astype(np.float32))
    assert len(merges) == count - 1
    if count == 1:
        return
    theirs = scipys(squareform(distances, checks=False), "average")
    np.testing.assert_allclose([merge.distance for merge in merges], theirs[:, 2], atol=1e-5)
    for number in {1, count // 2, count - 1}:
        ours = cut(count, merges[: count - number])
        expected = fcluster(theirs, number, "maxclust")
        assert ((ours[:, None] == ours) == (expected[:, None] == expected)).all()


def test_equal_pieces_are_joined_too():
    merges = linkage(np.zeros((6, 6), np.float32))
    assert len(merges) == 5
    assert cut(6, merges).tolist() == [0] * 6


def test_large_clusters_are_counted_as_they_are_cut():
    embeddings = pieces(5, 20, 9, 4)
    weights = np.random.default_rng(1).uniform(0.5, 2, len(embeddings))
    merges = linkage(1 - embeddings @ embeddings.T)
    for merged, found in enumerate(large_clusters(merges, weights, 3.0)):
        sizes = np.bincount(cut(len(embeddings), merges[:merged]), weights)
        assert found == (sizes >= 3.0).sum()


@pytest.mark.parametrize("sizes", [(30,), (20, 20), (30, 9, 9), (12, 12, 12, 12, 12)])
def test_each_voice_is_found(sizes):
    embeddings = pieces(3, *sizes)
    found = voices(embeddings, np.ones(len(embeddings)), **AUTO)
    assert len(found) == len(sizes)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-5)
    assert sorted(((embeddings @ found.T) > 0.9).sum(axis=0)) == sorted(sizes)


def test_a_voice_of_few_pieces_is_none_unless_it_is_asked_for():
    embeddings = pieces(3, 40, 30, 2)
    weights = np.ones(len(embeddings))
    assert len(voices(embeddings, weights, **AUTO)) == 2
    assert len(voices(embeddings, weights, **AUTO, fewest=3, most=3)) == 3


def test_the_number_is_within_what_is_asked_for():
    embeddings = pieces(3, 20, 20, 20)
    weights = np.ones(len(embeddings))
    for limits, number in (
        ({"most": 2}, 2),
        ({"fewest": 1, "most": 1}, 1),
        ({"fewest": 5, "most": 5}, 5),
        ({"fewest": 64, "most": 64}, 60),
        ({"fewest": 2, "most": 9}, 3),
    ):
        assert len(voices(embeddings, weights, **AUTO, **limits)) == number


def test_nothing_and_one_piece():
    none = np.zeros((0, 4), np.float32)
    assert len(voices(none, np.zeros(0), **AUTO)) == 0
    one = np.eye(4, dtype=np.float32)[:1]
    np.testing.assert_allclose(voices(one, np.ones(1), **AUTO, fewest=2, most=2), one)


def test_of_very_many_pieces_some_are_clustered(monkeypatch):
    monkeypatch.setattr(clustering, "MOST_PIECES", 50)
    embeddings = pieces(3, 400, 300)
    assert len(voices(embeddings, np.ones(len(embeddings)), **AUTO)) == 2
