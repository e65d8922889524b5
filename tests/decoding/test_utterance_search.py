import numpy as np
import pytest
from ctc_paths import log_probs_of

from conch.decoding.beam import BeamHypothesis
from conch.decoding.hypothesis import AlignedWord
from conch.decoding.units import Characters
from conch.decoding.utterance_search import GreedySearch, LocalAgreement
from conch.decoding.vocab import CtcVocab
from lab.training.ctc.units import greedy_text


def said(text: str, starts=None) -> list[AlignedWord]:
    """Return words of ten frames each."""
    words = text.split()
    starts = range(len(words)) if starts is None else starts
    return [
        AlignedWord(word, 10 * start, 10 * start + 9, 0.5)
        for word, start in zip(words, starts, strict=True)
    ]


def shown(words) -> str:
    return " ".join(word.text for word in words)


def test_what_two_texts_in_a_row_begin_with_is_kept():
    agreement = LocalAgreement()
    assert shown(agreement.update(said("the cat"))) == "the cat"
    assert shown(agreement.kept) == ""
    assert shown(agreement.update(said("the cat sat on"))) == "the cat sat on"
    assert shown(agreement.kept) == "the cat"
    assert shown(agreement.update(said("the cat sad on a"))) == "the cat sad on a"
    assert shown(agreement.kept) == "the cat"
    assert shown(agreement.update(said("the cat sad on a mat"))) == "the cat sad on a mat"
    assert shown(agreement.kept) == "the cat sad on a"


def test_the_last_word_may_still_grow():
    agreement = LocalAgreement()
    agreement.update(said("in"))
    agreement.update(said("in"))
    assert agreement.kept == ()
    assert shown(agreement.update(said("inside"))) == "inside"


def test_words_that_the_search_may_still_change_are_not_kept():
    agreement = LocalAgreement()
    agreement.update(said("the cap it all"))
    assert shown(agreement.update(said("the cap it all"), most_frame=9)) == "the cap it all"
    assert shown(agreement.kept) == "the"
    assert shown(agreement.update(said("the capital", [0, 1]), most_frame=9)) == "the capital"


def test_what_is_kept_stays_whatever_the_search_says_later():
    agreement = LocalAgreement()
    agreement.update(said("the cat sat"))
    agreement.update(said("the cat sat on"))
    later = agreement.update(said("a cap sat on the mat"))
    assert shown(later) == "the cat sat on the mat"
    assert shown(agreement.spliced(said("that sat mat", [0, 2, 5]))) == "the cat sat on mat"


def test_kept_words_only_ever_grow_and_begin_what_is_shown():
    rng = np.random.default_rng(0)
    for _ in range(100):
        agreement, kept = LocalAgreement(), ()
        for length in range(1, 12):
            text = " ".join(rng.choice(["a", "b"], size=length))
            words = agreement.update(said(text))
            assert words[: len(agreement.kept)] == agreement.kept
            assert agreement.kept[: len(kept)] == kept
            kept = agreement.kept


VOCAB = CtcVocab(Characters.vocab)


def best_path(log_probs: np.ndarray, size: int = 7) -> BeamHypothesis:
    """Return what is found in pieces of a size."""
    search = GreedySearch(VOCAB)
    for start in range(0, len(log_probs), size):
        search.advance(log_probs[start : start + size])
    found = search.best()
    assert found.text.startswith(search.stable_text())
    return found


def words(path: str):
    return best_path(log_probs_of(path)).words


def test_words_have_times():
    first, second = words("--hh-i-  -a-lll-l--")
    assert (first.text, second.text) == ("hi", "all")
    assert [first.start_frame, first.end_frame] == [2, 6]
    assert [second.start_frame, second.end_frame] == [10, 17]
    assert first.confidence == pytest.approx(0.9, abs=1e-4)


@pytest.mark.parametrize("path", ["", "----", "  - "])
def test_no_letter_is_no_word(path):
    assert words(path) == ()


def test_confidence_is_the_mean_over_letters_of_the_best_of_their_frames():
    log_probs = log_probs_of("aab")
    log_probs[0, Characters.vocab.index("a")] = np.log(0.5)
    log_probs[2, Characters.vocab.index("b")] = np.log(0.4)
    (word,) = best_path(log_probs).words
    assert word.confidence == pytest.approx((0.9 * 0.4) ** 0.5, abs=1e-4)


def test_score_is_the_paths_and_the_text_that_of_a_plain_loop():
    rng = np.random.default_rng(0)
    for _ in range(30):
        logits = rng.standard_normal((rng.integers(1, 60), 29)) * 3
        log_probs = (logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)).astype(np.float32)
        found = best_path(log_probs)
        assert found.score == found.am_score == pytest.approx(log_probs.max(1).sum(), rel=1e-5)
        assert found.text == greedy_text(log_probs.argmax(1).tolist(), Characters.vocab)
        assert found.text == " ".join(word.text for word in found.words)
