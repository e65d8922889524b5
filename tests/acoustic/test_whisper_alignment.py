"""Words and their times, computed by hand."""

import pytest

from conch.acoustic.whisper import model_folder
from conch.acoustic.whisper_alignment import WordTokens, confidence, split_words, time_words
from conch.acoustic.whisper_tokens import WhisperTokens


def words_of(pieces: list[str], *, spaced: bool = True) -> list[tuple[str, int, int]]:
    def decode(tokens):
        return "".join(pieces[token] for token in tokens)

    words = split_words(range(len(pieces)), decode, spaced=spaced)
    return [(word.text, word.start, word.end) for word in words]


def test_punctuation_is_attached_but_not_timed():
    pieces = [' "', "Hel", "lo", ",", '"', " he", " said", " -", " don", "'t", "!", " (", "5", ")"]
    assert words_of(pieces) == [
        ('"Hello,"', 1, 3),
        ("he", 5, 6),
        ("said", 6, 7),
        ("- don't!", 8, 10),
        ("(5)", 12, 13),
    ]


def test_numbers_stay_whole():
    assert words_of([" 3", ".", "5", " 1", ",", "000"]) == [("3.5", 0, 3), ("1,000", 3, 6)]


def test_text_without_words():
    assert words_of([" ...", "?"]) == [("...?", 0, 2)]
    assert words_of([" hm", " ..."]) == [("hm ...", 0, 1)]
    assert words_of([]) == []


def test_each_character_is_a_word_where_there_are_no_spaces():
    assert words_of(["你", "好", "、", "世界", "。"], spaced=False) == [
        ("你", 0, 1),
        ("好、", 1, 2),
        ("世界。", 3, 4),
    ]


def test_characters_of_several_tokens_stay_whole():
    tokens = WhisperTokens(model_folder(""), multilingual=False)
    ids = tokens.encode("你好 🎉 naïve", "zh")
    spaced = split_words(ids, tokens.decode, spaced=True)
    assert [word.text for word in spaced] == ["你好 🎉", "naïve"]
    unspaced = split_words(tokens.encode("你好", "zh"), tokens.decode, spaced=False)
    assert [word.text for word in unspaced] == ["你", "好"]


def test_words_last_from_their_first_token_to_the_next_one():
    words = [WordTokens("one,", 0, 1), WordTokens("two", 2, 4)]
    # tokens: one | , | t | wo | end of text
    path = [(0, 0), (0, 1), (1, 2), (1, 3), (2, 5), (3, 6), (3, 7), (4, 9), (4, 10)]
    found = time_words(words, path, [0.5, 0.1, 0.9, 0.4], num_frames=11)
    assert [(word.text, word.start, word.end) for word in found] == [
        ("one,", 0.0, 0.04),
        ("two", 0.10, 0.18),
    ]
    assert [word.confidence for word in found] == pytest.approx([0.5, 0.6])


def test_no_word_ends_after_the_audio():
    found = time_words([WordTokens("one", 0, 1)], [(0, 0), (1, 20)], [1.0], num_frames=10)
    assert (found[0].start, found[0].end) == (0.0, 0.2)


def test_a_pause_before_a_sentence_is_not_its_first_words():
    words = [WordTokens("Hm.", 0, 1), WordTokens("Then", 2, 3), WordTokens("go", 3, 4)]
    # Hm: 0 to 10; the full stop; Then: 10 to 100, most of it pause; go: 100 to 110
    path = [(0, 0), (1, 10), (2, 10), (3, 100), (4, 110)]
    found = time_words(words, path, [1.0] * 4, num_frames=120)
    assert [word.start for word in found] == pytest.approx([0.0, 1.6, 2.0])  # 2.0 - 2 x 0.2


def test_confidence_is_a_geometric_mean():
    assert confidence([0.9, 0.4]) == pytest.approx(0.6)
    assert confidence([0.0, 1.0]) < 1e-10
