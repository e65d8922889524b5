"""The best path and its words, by hand and against a plain loop."""

import numpy as np
import pytest
from ctc_paths import log_probs_of

from conch.acoustic.ctc_units import Characters, greedy_text
from conch.decoding.ctc_greedy import best_path, words_of


def words(path: str):
    emissions, _ = best_path(log_probs_of(path))
    return words_of(emissions, Characters.vocab, 0.02)


def test_words_last_from_their_first_letters_frame_to_their_lasts():
    first, second = words("--hh-i-  -a-lll-l--")
    assert (first.text, first.start, first.end) == ("hi", 0.04, 0.12)
    assert (second.text, second.start, second.end) == ("all", 0.2, 0.34)
    assert first.confidence == pytest.approx(0.9, abs=1e-4)


@pytest.mark.parametrize("path", ["", "----", "  - "])
def test_no_letter_is_no_word(path):
    assert words(path) == ()


def test_confidence_is_the_mean_over_letters_of_the_best_of_their_frames():
    log_probs = log_probs_of("aab")
    log_probs[0, Characters.vocab.index("a")] = np.log(0.5)
    log_probs[2, Characters.vocab.index("b")] = np.log(0.4)
    emissions, _ = best_path(log_probs)
    (word,) = words_of(emissions, Characters.vocab, 0.02)
    assert word.confidence == pytest.approx((0.9 * 0.4) ** 0.5, abs=1e-4)


def test_score_is_the_paths_and_the_text_that_of_a_plain_loop():
    rng = np.random.default_rng(0)
    for _ in range(30):
        logits = rng.standard_normal((rng.integers(1, 60), 29)) * 3
        log_probs = logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)
        emissions, score = best_path(log_probs.astype(np.float32))
        assert score == pytest.approx(log_probs.max(1).sum(), rel=1e-5)
        text = " ".join(word.text for word in words_of(emissions, Characters.vocab, 0.02))
        assert text == greedy_text(log_probs.argmax(1).tolist(), Characters.vocab)
