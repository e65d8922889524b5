import numpy as np
import pytest

from conch.decoding.hypothesis import AlignedWord, PathUnit, spelled_words, unit_runs


def pieces(texts, frames, probs) -> list[PathUnit]:
    return [
        PathUnit(text, frame, frame + 1, np.log(prob))
        for text, frame, prob in zip(texts, frames, probs, strict=True)
    ]


@pytest.mark.parametrize(
    ("texts", "frames", "probs"),
    [
        (["h", "i", " ", "y", "o", "u"], [5, 6, 8, 10, 12, 20], [0.5, 0.5, 0.1, 0.9, 0.9, 0.9]),
        ([" hi", " y", "ou"], [5, 10, 20], [0.5, 0.9, 0.9]),
    ],
)
def test_words_last_from_their_first_to_their_last_unit(texts, frames, probs):
    first, second = spelled_words(pieces(texts, frames, probs))
    assert first.text == "hi" and second.text == "you"
    assert first.start_frame == 5
    assert (second.start_frame, second.end_frame) == (10, 21)
    assert (first.confidence, second.confidence) == pytest.approx((0.5, 0.9))


def test_a_confidence_is_a_geometric_mean_without_the_space():
    (word,) = spelled_words(pieces(["a", "b", " "], [0, 1, 2], [0.9, 0.4, 0.01]))
    assert word == AlignedWord("ab", 0, 2, pytest.approx(0.6))


def test_no_units_no_words():
    assert spelled_words([]) == ()


def test_units_of_a_path_have_frames_and_their_best_log_prob():
    path = np.array([0, 3, 3, 0, 3, 1, 1, 0])
    found = unit_runs(path, np.arange(8, dtype=np.float32))
    assert [item.tolist() for item in found] == [[3, 3, 1], [1, 4, 5], [3, 5, 7], [2, 4, 6]]
    assert [len(item) for item in unit_runs(path[:0], np.zeros(0, np.float32))] == [0] * 4
