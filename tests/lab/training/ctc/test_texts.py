"""Texts of searches over several utterances."""

import numpy as np

from conch.decoding.beam.search import CtcSearch
from conch.decoding.options import CtcSearchOptions
from conch.decoding.vocab import CtcVocab
from lab.training.ctc.texts import beam_texts

VOCAB = CtcVocab(("", " ", "a", "b"))


def spoken(units: list[int]) -> np.ndarray:
    probs = np.full((len(units), 4), 0.01, np.float32)
    probs[np.arange(len(units)), units] = 0.97
    return np.log(probs)


def test_texts_of_batches_are_in_the_order_of_the_utterances():
    log_probs = [spoken([2, 1, 3, 0, 3]), spoken([3]), spoken([2, 2, 0, 2])]
    texts = beam_texts(CtcSearch(VOCAB, None, None), log_probs, CtcSearchOptions(), batch_size=2)
    assert texts == ["a bb", "b", "aa"]
