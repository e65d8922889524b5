"""Transcripts as a language model's words."""

import doctest

import pytest

from conch import language
from conch.language import language_model_words


def test_docstring_examples():
    assert doctest.testmod(language).failed == 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ""),
        ("...?!", ""),
        ("Ever tried. Ever failed. No matter.", "ever tried ever failed no matter"),
        ("Don’t — I can't, y'all!", "don't i can't y'all"),  # noqa: RUF001
        (
            "the workers' rights, 'quoted words' and 'em",
            "the workers' rights quoted words' and 'em",
        ),
        ("a well-known half--way house", "a well known half way house"),
        ("AT&T rose 5%", "at and t rose five percent"),
        ("“Café” naïveté", "café naïveté"),
        ("東京 is far", "東京 is far"),
        ("snake_case", "snake case"),
    ],
)
def test_words(text, words):
    assert language_model_words(text) == words.split()


@pytest.mark.parametrize(
    ("number", "words"),
    [
        ("0", "zero"),
        ("7", "seven"),
        ("13", "thirteen"),
        ("40", "forty"),
        ("21", "twenty one"),
        ("100", "one hundred"),
        ("1,000", "one thousand"),
        ("2000", "two thousand"),
        ("12,345", "twelve thousand three hundred forty five"),
        ("1,000,001", "one million one"),
        ("1900", "nineteen hundred"),
        ("1906", "nineteen o six"),
        ("1984", "nineteen eighty four"),
        ("2024", "two thousand twenty four"),
        ("007", "zero zero seven"),
        ("3.14", "three point one four"),
        ("1st", "first"),
        ("22nd", "twenty second"),
        ("30th", "thirtieth"),
        ("100th", "one hundredth"),
        ("1890s", "eighteen nineties"),
        ("1900s", "nineteen hundreds"),
        ("1234567890123", "one two three four five six seven eight nine zero one two three"),
        ("५", "five"),
    ],
)
def test_numbers_are_read_out(number, words):
    assert language_model_words(number) == words.split()
