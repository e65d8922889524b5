"""Words and their times, computed by hand."""

from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.ndimage import median_filter

from conch.families.attention import word_times
from conch.families.attention.word_times import WordTokens, confidence, split_words, warped
from conch.families.whisper.config import model_folder
from conch.families.whisper.tokens import WhisperTokens

time_words = partial(word_times.time_words, frame_s=0.02)


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


def test_a_sign_belongs_to_the_word_that_it_touches():
    assert words_of([" cost", " $", "5", " —", "then", " rock", " &", " roll"]) == [
        ("cost", 0, 1),
        ("$5", 2, 3),
        ("—then", 4, 5),
        ("rock &", 5, 6),
        ("roll", 7, 8),
    ]
    assert words_of([" dijo", " ¡", "Hola", "!"]) == [("dijo", 0, 1), ("¡Hola!", 2, 3)]


def test_numbers_stay_whole():
    assert words_of([" 3", ".", "5", " 1", ",", "000"]) == [("3.5", 0, 3), ("1,000", 3, 6)]


def test_signs_in_a_row_belong_to_one_word():
    assert words_of([" was", " $", "500", " a", " R", " &", " D", " ...", "and"]) == [
        ("was", 0, 1),
        ("$500", 2, 3),
        ("a", 3, 4),
        ("R &", 4, 5),
        ("D", 6, 7),
        ("...and", 8, 9),
    ]
    assert words_of([" to", " -", "$", "5", " (", '"', "x"]) == [
        ("to", 0, 1),
        ("-$5", 3, 4),
        ('("x', 6, 7),
    ]


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


def test_a_combining_mark_belongs_to_its_letter():
    assert words_of(["ด", "ี", "ไ", "หม"], spaced=False) == [
        ("ดี", 0, 2),
        ("ไหม", 2, 4),
    ]


def test_brackets_of_scripts_without_spaces_belong_to_what_they_enclose():
    pieces = ["说", "「", "好", "」", "。", "《", "书", "》"]
    words = words_of(pieces, spaced=False)
    assert [text for text, _, _ in words] == ["说", "「好」。", "《书》"]


def test_what_begins_no_line_belongs_to_the_word_before():
    thai = words_of(["เ", "ก", "็", "บ", "น", "ำ", "้", "ๆ"], spaced=False)
    assert [text for text, _, _ in thai] == ["เก็", "บ", "นำ้ๆ"]
    japanese = words_of(["ラ", "ー", "メ", "ン", "待", "って"], spaced=False)
    assert [text for text, _, _ in japanese] == ["ラー", "メ", "ン", "待って"]


PIECES = [
    " $",
    "5",
    " —",
    " a",
    "b",
    ",",
    " ...",
    '"',
    ' "',
    " (",
    ")",
    " ",
    "。",
    "「",
    "好",
    "ー",
]


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.lists(st.sampled_from(PIECES), max_size=12), st.booleans())
def test_words_have_all_of_the_text_in_order(pieces: list[str], spaced: bool) -> None:
    words = words_of(pieces, spaced=spaced)
    assert "".join(text for text, _, _ in words).replace(" ", "") == "".join(pieces).replace(
        " ", ""
    )
    assert all(start < end for _, start, end in words)
    for (_, _, end), (_, start, _) in pairwise(words):
        assert end <= start


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


def timed(texts: list[str], frames: list[int], num_frames: int) -> list[tuple[Any, Any]]:
    """The times of words of one token each, of which the path enters these frames."""
    words = [WordTokens(text, index, index + 1) for index, text in enumerate(texts)]
    found = time_words(words, list(enumerate(frames)), [1.0] * len(texts), num_frames)
    return [(pytest.approx(word.start), pytest.approx(word.end)) for word in found]


def test_a_word_of_no_frame_takes_from_the_pause_behind_it():
    words = [WordTokens("one", 0, 1), WordTokens("two", 2, 3)]
    path = [(0, 5), (1, 5), (2, 20), (3, 30)]
    one, two = time_words(words, path, [1.0] * 3, num_frames=40)
    assert (one.start, one.end) == (pytest.approx(0.10), pytest.approx(0.14))
    assert (two.start, two.end) == (pytest.approx(0.40), pytest.approx(0.60))


def test_the_last_word_takes_from_the_pause_before_it():
    words = [WordTokens("one", 0, 1), WordTokens("two", 2, 3)]
    path = [(0, 0), (1, 10), (2, 40), (3, 40)]
    one, two = time_words(words, path, [1.0] * 3, num_frames=40)
    assert (one.start, one.end) == (0.0, pytest.approx(0.2))
    assert (two.start, two.end) == (pytest.approx(0.76), pytest.approx(0.8))


def test_words_that_share_a_frame_share_the_time_of_a_neighbour_by_their_letters():
    # a and the begin and end where tall begins, which lasts from 0.2 to 0.8 s.
    assert timed(["a", "the", "tall"], [10, 10, 10, 40], 40) == [
        (0.16, 0.2),
        (0.2, 0.2 + 0.6 * 6 / 13),
        (0.2 + 0.6 * 6 / 13, 0.8),
    ]


def test_words_have_a_length_follow_each_other_and_stay_in_the_audio():
    rng = np.random.default_rng(0)
    for _ in range(3000):
        count = int(rng.integers(1, 25))
        num_frames = int(rng.integers(1, 1500))
        # From a few frames that many words share to more than the audio has.
        frames = np.sort(rng.integers(0, rng.integers(1, num_frames + 20), count + 1))
        gaps = rng.integers(0, 2, count)  # punctuation behind a word
        starts = np.cumsum([0, *(1 + gaps[:-1])])
        texts = ["x" * int(rng.integers(1, 12)) + rng.choice(["", "."]) for _ in range(count)]
        words = [
            WordTokens(text, int(start), int(start) + 1)
            for text, start in zip(texts, starts, strict=True)
        ]
        num_tokens = int(starts[-1] + 1 + gaps[-1])
        entered = np.interp(np.arange(num_tokens + 1), [*starts, num_tokens], frames).astype(int)
        found = time_words(words, list(enumerate(entered)), [1.0] * num_tokens, num_frames)
        assert [word.text for word in found] == texts
        for word in found:
            assert 0 <= word.start < word.end <= num_frames * 0.02 + 1e-9
        for one, other in pairwise(found):
            assert one.end <= other.start


def test_a_pause_before_a_sentence_is_not_its_first_words():
    words = [WordTokens("Hm.", 0, 1), WordTokens("Then", 2, 3), WordTokens("go", 3, 4)]
    # Hm: 0 to 10; the full stop; Then: 10 to 100, most of it pause; go: 100 to 110
    path = [(0, 0), (1, 10), (2, 10), (3, 100), (4, 110)]
    found = time_words(words, path, [1.0] * 4, num_frames=120)
    assert [word.start for word in found] == pytest.approx([0.0, 1.6, 2.0])  # 2.0 - 2 x 0.2


def test_a_word_of_several_seconds_has_no_pause():
    words = [WordTokens("on", 0, 1), WordTokens("the", 1, 2), WordTokens("way", 2, 3)]
    # on: 0 to 10; the: 10 to 400, most of it what the text leaves out; way: 400 to 420
    found = time_words(words, [(0, 0), (1, 10), (2, 400), (3, 420)], [1.0] * 3, num_frames=420)
    assert [word.start for word in found] == pytest.approx([0.0, 7.2, 8.0])  # 8.0 - 2 x 0.4
    assert found[0].end == pytest.approx(0.2)


def test_confidence_is_a_geometric_mean():
    assert confidence([0.9, 0.4]) == pytest.approx(0.6)
    assert confidence([0.0, 1.0]) < 1e-10


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.integers(1, 40))
def test_no_path_costs_less(seed, num_tokens, num_frames):
    attention = np.random.default_rng(seed).random((num_tokens, num_frames)).astype(np.float32)
    path = warped(attention)
    steps = np.diff(path, axis=0)
    assert path[0] == (0, 0)
    assert path[-1] == (num_tokens - 1, num_frames - 1)
    assert {tuple(step) for step in steps} <= {(0, 1), (1, 0), (1, 1)}
    spread = attention.std(axis=0) + 1e-9
    cost = -median_filter((attention - attention.mean(axis=0)) / spread, (1, 7)).astype(float)
    least = np.full((num_tokens + 1, num_frames + 1), np.inf)
    least[0, 0] = 0
    for token, frame in np.ndindex(cost.shape):
        before = least[token, frame], least[token, frame + 1], least[token + 1, frame]
        least[token + 1, frame + 1] = cost[token, frame] + min(before)
    assert sum(cost[place] for place in path) == pytest.approx(least[-1, -1], abs=1e-6)
