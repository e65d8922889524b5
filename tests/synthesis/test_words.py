"""Times of words from the durations of their sounds."""

import numpy as np

from conch.synthesis.words import word_times
from conch.wire.synthesis import SpokenWord


def test_a_word_lasts_as_long_as_its_sounds() -> None:
    text = "Oh, hello"
    spans = np.array([[0, 3, 1, 2], [4, 9, 4, 6]])
    durations = np.array([10, 4, 2, 2, 6, 8, 20])
    assert word_times(text, spans, durations, 0.0125) == (
        SpokenWord("Oh,", 0.125, 0.175),
        SpokenWord("hello", 0.225, 0.4),
    )
    assert word_times(text, np.zeros((0, 4), int), durations, 0.0125) == ()
