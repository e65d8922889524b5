import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from conch.wire.nbest import Weights, joined, ranked
from conch.wire.result import Hypothesis


def hypothesis(text: str, score: float) -> Hypothesis:
    return Hypothesis(text, score, score)


def test_every_part_counts_with_its_weight_and_the_order_follows():
    sad = Hypothesis("the cat sad", -1.0, -1.0, -20.0, 3, ctc_score=-9.0, attention_score=-2.0)
    sat = Hypothesis("the cat sat", -1.2, -1.2, -10.0, 3, ctc_score=-8.0, attention_score=-1.0)
    best, second = ranked([sad, sat], Weights(lm=0.1, ctc=0.25, attention=2.0, word_bonus=0.5))
    assert best == replace(sat, score=-1.2 - 1.0 - 2.0 - 2.0 + 1.5)
    assert second == replace(sad, score=-1.0 - 2.0 - 2.25 - 4.0 + 1.5)


@pytest.mark.parametrize("part", ["lm_score", "ctc_score", "attention_score", "num_words"])
def test_parts_that_nobody_gave_do_not_count(part):
    item = Hypothesis("a", -1.0, -1.0, -2.0, 3, ctc_score=-4.0, attention_score=-5.0)
    whole, without = (
        ranked([one], Weights(1.0, 1.0, 1.0, 1.0))[0].score
        for one in (item, replace(item, **{part: None}))
    )
    assert whole - without == getattr(item, part)


def test_zero_weights_keep_the_order_and_the_scores_even_of_impossible_texts():
    nbest = [
        Hypothesis("a", -1.0, -1.0, -50.0, 1, ctc_score=-math.inf),
        Hypothesis("b", -2.0, -2.0, -1.0, 1, ctc_score=-3.0),
    ]
    assert ranked(nbest, Weights()) == nbest


def test_an_impossible_text_comes_last():
    nbest = [hypothesis("a", -1.0), hypothesis("b", -2.0)]
    nbest = [replace(nbest[0], ctc_score=-math.inf), replace(nbest[1], ctc_score=-3.0)]
    assert [item.text for item in ranked(nbest, Weights(ctc=0.1))] == ["b", "a"]


def test_a_language_model_takes_the_place_of_the_searchs_own():
    result = Hypothesis("a b", score=-30.0, am_score=-10.0, lm_score=-8.0, num_words=2)
    (again,) = ranked([result], Weights(lm=0.5), replaces_lm=True)
    assert again == replace(result, score=-14.0)


def test_no_segments_join_to_one_empty_hypothesis():
    assert joined([], 3) == (Hypothesis("", 0.0, 0.0),)


def test_parts_of_scores_add_up():
    segment = [Hypothesis("a", -3.0, -2.0, -10.0, 1, ctc_score=-5.0)]
    whole = Hypothesis("a a", -6.0, -4.0, -20.0, 2, ctc_score=-10.0)
    assert joined([segment, segment], 1) == (whole,)


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
    result = joined(segments, 6)
    assert [item.score for item in result] == pytest.approx(every[:6])
    assert len({item.text for item in result}) == 6
