"""Texts in Chinese, Japanese, Thai, Korean and English, and mixed."""

# ruff: noqa: RUF001

import pytest

from conch.wire.joining import is_within_word, joined_text, num_words, separator, separators
from conch.wire.nbest import joined
from conch.wire.result import Hypothesis, Word, text_of_words


@pytest.mark.parametrize(
    ("texts", "whole"),
    [
        (("Good", "day."), "Good day."),
        (("", "Good", "", "day.", ""), "Good day."),
        (("今天天气很好。", "我们去公园。"), "今天天气很好。我们去公园。"),
        (("你好,", "我是"), "你好,我是"),
        (("他说“好”", "我也去"), "他说“好”我也去"),
        (("我", "用", "Python", "写"), "我用 Python 写"),
        (("我喜欢，", "Python", "，", "真的"), "我喜欢，Python，真的"),
        (("今日は", "いい天気です。"), "今日はいい天気です。"),
        (("カタカナ", "ｶﾅ", "と"), "カタカナｶﾅと"),
        (("สวัสดี", "ครับ"), "สวัสดีครับ"),
        (("ສະບາຍດີ", "ເຈົ້າ"), "ສະບາຍດີເຈົ້າ"),
        (("សួស្តី", "អ្នក"), "សួស្តីអ្នក"),
        (("မင်္ဂလာ", "ပါ"), "မင်္ဂလာပါ"),
        (("안녕하세요.", "반갑습니다."), "안녕하세요. 반갑습니다."),
        (("안녕", "你好"), "안녕 你好"),
        (("我说", "Hello there.", "你好"), "我说 Hello there. 你好"),
        (("Yes.", "…", "No"), "Yes. … No"),
        ((), ""),
    ],
)
def test_a_script_has_its_spaces(texts: tuple[str, ...], whole: str) -> None:
    assert joined_text(texts) == whole
    assert text_of_words([Word(text, 0.0, 1.0, 1.0) for text in texts]) == whole
    lists = [[Hypothesis(text, -1.0, -1.0)] for text in texts]
    assert joined(lists, 1)[0].text == whole


def test_nothing_stands_beside_nothing() -> None:
    assert separator("", "a") == separator("a", "") == ""


@pytest.mark.parametrize(
    ("text", "words", "spaces"),
    [
        (
            "我用Python写, 2023年",
            ["我", "用", "Python", "写,", "2023", "年"],
            ["", "", "", "", " ", ""],
        ),
        ("我 用", ["我", "用"], ["", " "]),
        (" good  day", ["good", "day"], ["", " "]),
        ("other words", ["我", "用", "Go"], ["", "", " "]),
        ("", ["a", "b"], ["", " "]),
        ("a", [], []),
    ],
    ids=["its own", "a space", "spaces", "other words: by rule", "no text: by rule", "no words"],
)
def test_words_are_joined_as_their_text_is(text: str, words: list[str], spaces: list[str]) -> None:
    assert separators(text, words) == spaces


def test_a_word_among_characters_is_of_several_tokens() -> None:
    assert is_within_word("Py", "thon")
    assert is_within_word("20", "23")
    assert not is_within_word("用", "Py")
    assert not is_within_word("thon", "写")
    assert not is_within_word("写", "的")
    assert not is_within_word("写", "，")


def test_a_syllable_is_not_two_words() -> None:
    assert is_within_word("เ", "ก")
    assert is_within_word("น", "ำ")
    assert is_within_word("ラ", "ー")
    assert is_within_word("待", "って")
    assert not is_within_word("", "写")
    assert not is_within_word("。", "って")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", 0),
        ("It's 5 o'clock.", 3),
        ("我用 Python，好吗？", 5),
        ("“你好” - 你好!", 4),
        ("สวัสดีครับ", 7),
        ("안녕하세요 세계", 2),
    ],
)
def test_a_character_without_spaces_counts_as_a_word(text: str, words: int) -> None:
    assert num_words(text) == words
