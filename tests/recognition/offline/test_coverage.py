"""Texts that leave speech out, by hand-made words and speech probabilities."""

from itertools import pairwise

import numpy as np
import pytest

from conch.recognition.offline.coverage import (
    CUT_SEARCH_S,
    DOUBTFUL_S,
    FRAME_S,
    Gap,
    cut_near,
    gaps,
    within_speech,
)
from conch.wire.result import Word

THRESHOLD = 0.5


def speech(*spans: tuple[float, float], seconds: float) -> np.ndarray:
    """Return speech probabilities: 1 in the spans, else 0."""
    middles = (np.arange(round(seconds / FRAME_S)) + 0.5) * FRAME_S
    found = np.zeros(len(middles), np.float32)
    for start, end in spans:
        found[(start <= middles) & (middles < end)] = 1
    return found


def spoken(start: float, end: float, each: float = 0.4) -> list[Word]:
    """Words of four letters without gaps."""
    edges = np.linspace(start, end, max(1, round((end - start) / each)) + 1)
    return [Word("word", float(a), float(b), 0.9) for a, b in pairwise(edges)]


def gaps_of(words, probs) -> list[Gap]:
    return gaps(words, probs, THRESHOLD)


def test_a_text_of_all_that_is_said_has_no_gap():
    assert gaps_of(spoken(0, 6), speech((0, 6), seconds=6)) == []


def test_a_text_that_ends_too_early_has_a_gap_at_its_end():
    words = spoken(0, 4)
    (gap,) = gaps_of(words, speech((0, 10), seconds=10))
    assert (gap.first, gap.after) == (len(words), len(words))
    assert (gap.start, gap.end) == (pytest.approx(4), pytest.approx(10, abs=FRAME_S))
    assert gap.missing_s == pytest.approx(6, abs=2 * FRAME_S)


def test_a_text_that_begins_too_late_has_a_gap_at_its_start():
    (gap,) = gaps_of(spoken(3, 8), speech((0, 8), seconds=8))
    assert (gap.first, gap.after) == (0, 0)
    assert (gap.start, gap.end) == (0, pytest.approx(3))
    assert gap.missing_s == pytest.approx(3, abs=FRAME_S)


def test_a_gap_in_the_middle_takes_the_neighbours_that_it_is_spread_over():
    words = [*spoken(0, 2), Word("long", 2, 4, 0.1), Word("ones", 4, 6, 0.1), *spoken(6, 8)]
    (gap,) = gaps_of(words, speech((0, 8), seconds=8))
    assert (gap.start, gap.end) == (pytest.approx(2), pytest.approx(6))
    assert [word.text for word in words[gap.first : gap.after]] == ["long", "ones"]
    assert gap.missing_s == pytest.approx(4 - 2 * (0.35 + 4 * 0.09), abs=2 * FRAME_S)


def test_a_word_ends_a_gap_only_where_it_fills_it():
    words = [*spoken(0, 2), Word("a", 4, 4.3, 0.5), *spoken(6.3, 8)]
    (gap,) = gaps_of(words, speech((0, 8), seconds=8))
    assert (gap.start, gap.end) == (pytest.approx(2), pytest.approx(6.3))
    assert (gap.first, gap.after) == (5, 6)


def test_silence_is_no_gap():
    probs = speech((0, 2), (6, 8), seconds=12)
    assert gaps_of([*spoken(0, 2), *spoken(6, 8)], probs) == []
    assert gaps_of([*spoken(0, 1.6), Word("word", 1.6, 6, 0.9), *spoken(6, 8)], probs) == []


def test_slow_speech_is_no_gap():
    assert gaps_of(spoken(0, 6, each=0.65), speech((0, 6), seconds=6)) == []


def test_two_gaps_are_apart_and_the_worst_comes_first():
    words = [*spoken(0, 4), *spoken(5.5, 9), *spoken(12, 14)]
    worst, other = gaps_of(words, speech((0, 14), seconds=14))
    assert (worst.start, worst.end) == (pytest.approx(9), pytest.approx(12))
    assert (other.start, other.end) == (pytest.approx(4), pytest.approx(5.5))
    assert worst.missing_s > other.missing_s


def test_no_text_is_one_gap_from_the_first_speech_to_the_last():
    (gap,) = gaps_of([], speech((1, 4), seconds=5))
    assert (gap.start, gap.end, gap.first, gap.after) == (0, pytest.approx(5, abs=0.04), 0, 0)
    assert gap.missing_s == pytest.approx(3, abs=2 * FRAME_S)


@pytest.mark.parametrize("words", [[], spoken(0, 2)])
def test_where_nothing_was_heard_nothing_is_missing(words):
    assert gaps_of(words, np.zeros(0, np.float32)) == []
    assert gaps_of(words, np.full(60, np.nan, np.float32)) == []


def any_text(rng: np.random.Generator) -> tuple[list[Word], np.ndarray]:
    """Words of any length with any gaps, and speech that goes its own ways."""
    probs = np.repeat(rng.random(rng.integers(1, 40)), rng.integers(1, 40)).astype(np.float32)
    edges = np.sort(rng.random(2 * rng.integers(0, 30))) * len(probs) * FRAME_S
    pairs = zip(edges[::2], edges[1::2], strict=True)
    words = [Word("x" * rng.integers(1, 12), float(a), float(b), 0.5) for a, b in pairs if a < b]
    return words, probs


def test_gaps_are_in_the_segment_apart_and_gone_once_there_are_words():
    count = 0
    for seed in range(400):
        words, probs = any_text(np.random.default_rng(seed))
        found = gaps_of(words, probs)
        count += len(found)
        assert [gap.missing_s for gap in found] == sorted(
            (gap.missing_s for gap in found), reverse=True
        )
        by_time = sorted(found, key=lambda gap: gap.start)
        for gap in by_time:
            assert 0 <= gap.start < gap.end <= len(probs) * FRAME_S + 1e-6
            assert 0 <= gap.first <= gap.after <= len(words)
            assert gap.missing_s >= DOUBTFUL_S
        for one, other in pairwise(by_time):
            assert one.end <= other.start
            assert one.after <= other.first
        for gap in found:
            texts = spoken(gap.start, gap.end)
            filled = [*words[: gap.first], *texts, *words[gap.after :]]
            left = gaps_of(filled, probs)
            assert all(item.end <= gap.start or gap.end <= item.start for item in left)
    assert count > 200


def test_audio_is_cut_in_the_quietest_frame_near():
    probs = np.full(100, 0.9, np.float32)
    probs[[40, 53, 55, 70]] = 0.05, 0.3, 0.2, 0.0
    assert cut_near(probs, 50 * FRAME_S) == pytest.approx(55.5 * FRAME_S)
    assert cut_near(probs, 48 * FRAME_S) == pytest.approx(40.5 * FRAME_S)


def test_of_frames_as_quiet_the_nearest_is_cut():
    probs = np.full(100, 0.9, np.float32)
    probs[44:49] = 0.01
    assert cut_near(probs, 50 * FRAME_S) == pytest.approx(48.5 * FRAME_S)
    assert cut_near(np.ones(100, np.float32), 50 * FRAME_S) == pytest.approx(50.5 * FRAME_S)


def test_a_cut_stays_near_and_within_the_frames():
    rng = np.random.default_rng(0)
    for _ in range(300):
        probs = rng.random(rng.integers(1, 60)).astype(np.float32)
        at = rng.random() * len(probs) * FRAME_S
        cut = cut_near(probs, at)
        assert 0 < cut < len(probs) * FRAME_S
        assert abs(cut - at) <= CUT_SEARCH_S + 2 * FRAME_S


def test_a_cut_where_no_frames_are_is_where_it_was_asked_for():
    assert cut_near(np.zeros(0, np.float32), 1.5) == 1.5
    assert cut_near(np.full(50, np.nan, np.float32), 0.8) == pytest.approx(25.5 * FRAME_S)


def test_words_leave_the_silence_that_the_alignment_gave_them():
    words = [Word("one", 0.0, 2.0, 0.9), Word("two", 2.0, 6.0, 0.8)]
    probs = speech((0.96, 1.6), (4.0, 4.48), seconds=6.4)
    one, two = within_speech(words, probs, THRESHOLD)
    assert (one.start, one.end) == (pytest.approx(0.86), pytest.approx(1.7))
    assert (two.start, two.end) == (pytest.approx(3.9), pytest.approx(4.58))
    assert [(word.text, word.confidence) for word in (one, two)] == [("one", 0.9), ("two", 0.8)]


def test_words_without_speech_stay_as_they_are():
    words = [Word("hm", 0.5, 0.7, 0.1)]
    assert within_speech(words, speech((2, 3), seconds=4), THRESHOLD) == words
    assert within_speech(words, np.zeros(0, np.float32), THRESHOLD) == words
    assert within_speech([], speech((2, 3), seconds=4), THRESHOLD) == []


def test_words_within_speech_keep_their_order_and_a_length():
    for seed in range(400):
        words, probs = any_text(np.random.default_rng(seed))
        found = within_speech(words, probs, THRESHOLD)
        assert [word.text for word in found] == [word.text for word in words]
        for word, was in zip(found, words, strict=True):
            assert was.start <= word.start < word.end <= was.end
