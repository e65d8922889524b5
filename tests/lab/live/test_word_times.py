"""Times of reference words, from those of recognised words."""

from pathlib import Path

import numpy as np
import pytest

from conch.bench.samples import Sample
from conch.scoring.manifest import ManifestEntry
from conch.wire.result import Word
from lab.alignment import TimedWord
from lab.live.word_times import WordTimes, timed_words


def words(*items: tuple[str, float, float]) -> list[Word]:
    return [Word(text, start, end, 1.0) for text, start, end in items]


def times(found: tuple[TimedWord, ...]) -> list[tuple[str, float, float]]:
    return [(word.text, round(word.start_s, 3), round(word.end_s, 3)) for word in found]


def test_equal_words_have_the_recognised_times():
    heard = words(("The", 0.5, 0.6), ("Cat,", 0.6, 1.0), ("sat.", 1.2, 1.5))
    found = timed_words("THE CAT SAT", heard, 2.0)
    assert times(found) == [("the", 0.5, 0.6), ("cat", 0.6, 1.0), ("sat", 1.2, 1.5)]


def test_other_words_share_the_time_between_their_neighbours_by_characters():
    heard = words(("one", 0.5, 1.0), ("wrong", 1.0, 2.5), ("end", 2.5, 3.0))
    found = timed_words("alpha beta x omega end", heard, 4.0)
    # "alpha" comes before every equal word, and no word is before the first one heard.
    assert times(found) == [
        ("alpha", 0.5, pytest.approx(0.5 + 2 * 5 / 15, abs=1e-3)),
        ("beta", pytest.approx(0.5 + 2 * 5 / 15, abs=1e-3), 1.7),
        ("x", 1.7, pytest.approx(1.833)),
        ("omega", pytest.approx(1.833), 2.5),
        ("end", 2.5, 3.0),
    ]


def test_the_last_words_may_be_unknown():
    found = timed_words("up away", words(("up", 0.5, 1.0), ("way", 1.0, 1.4)), 4.0)
    assert times(found) == [("up", 0.5, 1.0), ("away", 1.0, 1.4)]


def test_numbers_that_the_normaliser_merges_are_between_their_neighbours():
    heard = words(("about", 0.0, 0.5), ("twenty", 0.5, 0.8), ("five", 0.8, 1.0), ("men", 1.0, 1.5))
    found = timed_words("about twenty five men", heard, 2.0)
    assert times(found) == [("about", 0.0, 0.5), ("25", 0.5, 1.0), ("men", 1.0, 1.5)]


def test_a_word_that_the_normaliser_splits_shares_its_time():
    found = timed_words("we are here", words(("We're", 0.2, 0.7), ("here", 0.7, 1.0)), 1.0)
    assert [word.text for word in found] == ["we", "are", "here"]
    assert times(found)[:2] == [("we", 0.2, 0.4), ("are", 0.4, 0.7)]


@pytest.mark.parametrize("heard", [[], words((",", 0.5, 1.0))])
def test_without_recognised_words_the_reference_takes_the_whole_utterance(heard):
    assert times(timed_words("ab cdef", heard, 3.0)) == [("ab", 0.0, 1.0), ("cdef", 1.0, 3.0)]
    assert timed_words("", heard, 3.0) == ()


def test_times_stay_within_the_utterance():
    found = timed_words("up away", words(("up", -0.1, 0.5), ("away", 0.5, 9.0)), 1.0)
    assert times(found) == [("up", 0.0, 0.5), ("away", 0.5, 1.0)]


def test_a_server_without_an_offline_path_gives_interpolated_times_and_says_so(capsys):
    samples = [
        Sample(ManifestEntry(Path(text), text), np.zeros(16_000, np.float32), 16_000, 1.0)
        for text in ("ab cd", "", "ef")
    ]
    # No server listens on the discard port.
    known = WordTimes(samples, {"mode": "two_pass"}).of("127.0.0.1:9", [0, 1, 0])
    assert {index: times(found) for index, found in known.items()} == {
        0: [("ab", 0.0, 0.5), ("cd", 0.5, 1.0)]
    }
    assert "no word times of 1 of 1 utterances" in capsys.readouterr().err


def test_an_utterance_is_asked_for_once(monkeypatch):
    samples = [
        Sample(ManifestEntry(Path(text), text), np.zeros(16_000, np.float32), 16_000, 1.0)
        for text in ("ab cd", "ef")
    ]
    asked = []

    def ask(self, url, indices):
        asked.append(list(indices))
        return {index: () for index in indices}

    monkeypatch.setattr(WordTimes, "_ask", ask)
    times = WordTimes(samples, {})
    times.of("none", [0])
    times.of("none", [0, 1, 1])
    times.of("none", [1])
    assert asked == [[0], [1]]
