"""What units write."""

import math

import pytest

from conch.families.funasr.paraformer import Unit, words_of_units


def words(*symbols: str) -> list[str]:
    units = [Unit(symbol, at, at + 1.0, 0.0) for at, symbol in enumerate(symbols)]
    has_spaces = any(symbol.startswith("▁") for symbol in symbols)
    return [word.text for word in words_of_units(units, has_spaces=has_spaces)]


@pytest.mark.parametrize(
    ("symbols", "expected"),
    [
        (["今", "天"], ["今", "天"]),
        (["hel@@", "lo", "so"], ["hello", "so"]),
        (["a@@", "b@@", "c", "我"], ["abc", "我"]),
        (["mor@@", "我", "ning"], ["mor", "我", "ning"]),
        (["▁he", "llo", "▁so"], ["hello", "so"]),
        (["llo", "▁so", "▁", "far"], ["llo", "so", "far"]),
        (["end@@"], ["end"]),
        ([], []),
    ],
)
def test_words_of_units(symbols, expected):
    assert words(*symbols) == expected


def test_a_word_has_the_times_and_the_mean_of_its_units():
    units = [Unit("hel@@", 1.0, 1.2, math.log(0.9)), Unit("lo", 1.3, 1.5, math.log(0.4))]
    (word,) = words_of_units(units, has_spaces=False)
    assert (word.start, word.end) == (1.0, 1.5)
    assert word.confidence == pytest.approx(0.6)
