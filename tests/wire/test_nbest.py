from itertools import product

import numpy as np
import pytest

from conch.wire.nbest import joined, rescored
from conch.wire.options import RecognitionOptions
from conch.wire.result import Hypothesis


def hypothesis(text: str, score: float) -> Hypothesis:
    return Hypothesis(text, score, score)


def test_rescoring_adds_the_weighted_parts_and_reorders():
    nbest = [hypothesis("the cat sad", -1.0), hypothesis("the cat sat", -1.2)]
    options = RecognitionOptions(lm_weight=0.1, word_bonus=0.5)
    best, second = rescored(nbest, [(-20.0, 3), (-10.0, 3)], options)
    assert best == Hypothesis("the cat sat", -1.2 - 1.0 + 1.5, -1.2, -10.0, 3)
    assert second == Hypothesis("the cat sad", -1.0 - 2.0 + 1.5, -1.0, -20.0, 3)


def test_zero_weights_keep_the_order_and_the_scores():
    nbest = [hypothesis("a", -1.0), hypothesis("b", -2.0)]
    options = RecognitionOptions(lm_weight=0.0, word_bonus=0.0)
    again = rescored(nbest, [(-50.0, 1), (-1.0, 1)], options)
    assert [(item.text, item.score) for item in again] == [("a", -1.0), ("b", -2.0)]


def test_a_rescorer_takes_the_place_of_the_graphs_ngrams():
    options = RecognitionOptions(decoder="wfst", lm_weight=0.5)
    found = Hypothesis("a b", score=-30.0, am_score=-10.0, lm_score=-30.0, num_words=2)
    assert rescored([found], [(-8.0, 2)], options) == [Hypothesis("a b", -14.0, -10.0, -8.0, 2)]


def test_no_segments_join_to_one_empty_hypothesis():
    assert joined([], 3) == (Hypothesis("", 0.0, 0.0),)


def test_parts_of_scores_add_up():
    segment = [Hypothesis("a", -3.0, -2.0, -10.0, 1)]
    assert joined([segment, segment], 1) == (Hypothesis("a a", -6.0, -4.0, -20.0, 2),)


@pytest.mark.parametrize("seed", range(10))
def test_joining_finds_the_best_combinations_of_brute_force(seed):
    random = np.random.default_rng(seed)
    segments = [
        sorted(
            (hypothesis(f"{i}{j}", -float(random.integers(0, 1000)) / 7) for j in range(4)),
            key=lambda item: -item.score,
        )
        for i in range(5)
    ]
    every = sorted(sum(item.score for item in choice) for choice in product(*segments))[::-1]
    found = joined(segments, 6)
    assert [item.score for item in found] == pytest.approx(every[:6])
    assert len({item.text for item in found}) == 6
