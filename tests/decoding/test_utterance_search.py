import numpy as np

from conch.decoding.hypothesis import AlignedWord
from conch.decoding.utterance_search import LocalAgreement


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
