"""Hotwords in the search: what a hypothesis gains by its letters."""

import pytest

from conch.families.transducer.guide import Bias, BiasState
from conch.wire.hotwords import Hotword

TEXTS = ["", " NEW", " YO", "RK", " CI", "TY", " ", "N", "E", "W", "ER", "我", "用"]


def states(units, *phrases):
    bias = Bias([Hotword(phrase, weight) for phrase, weight in phrases], TEXTS)
    state, found = BiasState(), []
    for unit in units:
        state = bias.after(state, unit)
        found.append(state)
    return found


def test_a_phrase_gains_its_share_with_each_letter_in_any_units():
    one = states([1, 2, 3], ("new york", 10.0))
    assert [item.gain for item in one] == pytest.approx([3, 5, 7])
    assert [item.finished().gain for item in one] == pytest.approx([0, 0, 7])
    other = states([6, 7, 8, 9, 2, 3, 4], ("New York", 10.0))
    assert other[3].gain == pytest.approx(3)
    assert other[-1].gain == other[-1].finished().gain == pytest.approx(7)


def test_a_phrase_that_does_not_go_on_loses_all():
    assert [item.gain for item in states([1, 4], ("new york", 10.0))] == [pytest.approx(3), 0]
    assert states([1, 10], ("new", 10.0))[-1].gain == 0, "newer"
    assert states([4, 7, 8, 9], ("new", 10.0))[-1].gain == 0, "within a word"


def test_the_second_beginning_counts_too():
    assert states([1, 1, 2, 3], ("new york", 10.0))[-1].finished().gain == pytest.approx(7)


def test_a_phrase_within_a_longer_one_counts_once():
    phrases = ("new york", 10.0), ("new york city", 10.0)
    assert states([1, 2, 3, 4], *phrases)[-1].finished().gain == pytest.approx(7)
    assert states([1, 2, 3, 4, 5], *phrases)[-1].finished().gain == pytest.approx(11)
    assert states([1, 2, 3, 1], *phrases)[-1].gain == pytest.approx(10), "and new again"


def test_scripts_without_spaces_have_no_boundaries_of_words():
    found = states([11, 12, 12], ("我用", 10.0))
    assert [item.gain for item in found] == pytest.approx([1, 2, 2])
    assert found[-1].finished().gain == pytest.approx(2)
