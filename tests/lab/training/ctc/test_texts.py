"""Texts of searches over several utterances."""

import numpy as np

from conch.decoding.beam import CtcSearchOptions
from conch.decoding.vocab import CtcVocab
from lab.training.ctc.texts import beam_texts

VOCAB = CtcVocab(("", " ", "a", "b"))


def spoken(units: list[int]) -> np.ndarray:
    probs = np.full((len(units), 4), 0.01, np.float32)
    probs[np.arange(len(units)), units] = 0.97
    return np.log(probs)


def test_texts_are_in_the_order_of_the_utterances():
    log_probs = [spoken([2, 1, 3, 0, 3]), spoken([3]), spoken([2, 2, 0, 2])]
    texts = beam_texts(log_probs, VOCAB, CtcSearchOptions())
    assert texts == ["a bb", "b", "aa"]
