import math

import pytest

from conch.decoding.hypothesis import CtcHypothesis, words_of
from conch.wire.result import Word


def hypothesis(pieces, frames, probs) -> CtcHypothesis:
    return CtcHypothesis(
        text=" ".join("".join(pieces).split()),
        am_score=-1.0,
        lm_score=0.0,
        score=-1.0,
        units=tuple(range(1, 1 + len(pieces))),
        texts=tuple(pieces),
        frames=tuple(frames),
        log_probs=tuple(math.log(item) for item in probs),
    )


@pytest.mark.parametrize(
    ("pieces", "frames", "probs"),
    [
        (["h", "i", " ", "y", "o", "u"], [5, 6, 8, 10, 12, 20], [0.5, 0.5, 0.1, 0.9, 0.9, 0.9]),
        ([" hi", " y", "ou"], [5, 10, 20], [0.5, 0.9, 0.9]),
    ],
)
def test_words_last_from_their_first_to_their_last_unit(pieces, frames, probs):
    first, second = words_of(hypothesis(pieces, frames, probs), 0.02)
    assert first.text == "hi" and second.text == "you"
    assert first.start == pytest.approx(0.1)
    assert (second.start, second.end) == pytest.approx((0.2, 0.42))
    assert (first.confidence, second.confidence) == pytest.approx((0.5, 0.9))


def test_a_confidence_is_a_geometric_mean_without_the_space():
    (word,) = words_of(hypothesis(["a", "b", " "], [0, 1, 2], [0.9, 0.4, 0.01]), 0.04)
    assert word == Word("ab", 0.0, 0.08, pytest.approx(0.6))


def test_no_units_no_words():
    assert words_of(hypothesis([], [], []), 0.02) == ()
