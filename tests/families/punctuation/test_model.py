"""Words of texts, and what the network sees of them."""

import pytest

from conch.families.punctuation.model import (
    BUCKETS,
    FEATURES,
    FIRST_WORD,
    UNKNOWN,
    HashedVocabulary,
    plain,
    words_of,
)


def test_words_stand_where_they_say():
    text = '  "so," he\tsaid - (café) №3 ♪ it\u2019s'
    words = words_of(text)
    assert [text[word.start : word.end] for word in words] == [
        *('"so,"', "he", "said", "(café)", "№3", "it\u2019s")
    ]
    cores = [text[word.core_start : word.core_end] for word in words]
    assert cores == ["so", "he", "said", "café", "3", "it\u2019s"]


@pytest.mark.parametrize("text", ["", "   ", "- … ♪ ___"])
def test_a_text_without_letters_has_no_words(text):
    assert words_of(text) == []


def test_accents_and_digits_do_not_count():
    assert plain("Señor\u2019s") == "senor's"
    assert plain("3rd") == plain("7rd") == "0rd"


def test_a_known_word_has_its_id_and_an_unknown_one_what_it_ends_in():
    vocabulary = HashedVocabulary(["the", "running"])
    the, running, jogging = vocabulary.features(["the", "running", "jogging"])
    assert (the[0], running[0], jogging[0]) == (FIRST_WORD, FIRST_WORD + 1, UNKNOWN)
    assert (running[-3:] == jogging[-3:]).sum() == 2  # ng and ing, but not ning
    assert vocabulary.size == FIRST_WORD + 2 + BUCKETS
    assert vocabulary.features([]).shape == (0, FEATURES)
    assert (vocabulary.features(["a", "é", ""]) < vocabulary.size).all()
