import math

import pytest

from conch.families.attention.recogniser import AGREEMENT, BIAS, TOKENS, calibrated
from conch.wire.result import Hypothesis, Word


def words(text: str, confidence: float = 0.5) -> list[Word]:
    return [Word(item, 0.0, 1.0, confidence) for item in text.split()]


def listed(**scores: float) -> list[Hypothesis]:
    return [Hypothesis(text.replace("_", " "), score, score) for text, score in scores.items()]


def log_odds(confidence: float) -> float:
    return math.log(confidence / (1 - confidence))


def test_a_word_of_every_text_is_surer_than_one_that_others_have_not():
    nbest = listed(the_cat_sat=-1.0, the_cat_sad=-1.0)
    the, cat, sat = calibrated(words("The cat sat."), nbest)
    assert the.confidence == cat.confidence > sat.confidence
    # The decoder's own says nothing at 0.5, nor does a half of the list.
    assert log_odds(sat.confidence) == pytest.approx(BIAS, abs=1e-3)
    assert log_odds(the.confidence) == pytest.approx(BIAS + AGREEMENT * log_odds(0.999), abs=1e-2)


def test_the_share_of_a_text_is_that_of_its_probability():
    nbest = listed(sat=math.log(0.8), sad=math.log(0.15), said=math.log(0.05))
    (sat,) = calibrated(words("sat", 0.7), nbest)
    expected = TOKENS * log_odds(0.7) + AGREEMENT * log_odds(0.8) + BIAS
    assert log_odds(sat.confidence) == pytest.approx(expected, abs=1e-3)


def test_texts_that_sound_the_same_agree():
    same = listed(**{"Two men.": -1.0, "two men": -1.0})
    assert calibrated(words("Two men."), same) == calibrated(words("Two men."), same[:1])


def test_a_word_that_is_missing_in_another_text_shifts_no_other():
    first, second, third = calibrated(words("a b c"), listed(a_b_c=-1.0, b_c=-1.0))
    assert second.confidence == third.confidence > first.confidence


def test_a_word_without_sound_and_no_words_at_all():
    dash, word = calibrated(words("- word"), listed(**{"- word": -1.0}))
    assert dash.confidence == word.confidence
    assert calibrated([], listed(**{"": -1.0})) == ()


def test_certain_and_impossible_words_keep_within_bounds():
    low, high = (calibrated(words("a", own), listed(a=-1.0))[0].confidence for own in (1e-9, 1.0))
    assert 0 < low < high < 1
