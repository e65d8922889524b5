from pathlib import Path

import jiwer
import pytest

from conch.scoring.error_rates import WordErrors
from conch.scoring.manifest import ManifestEntry
from lab.alignment import DeletedWords, Part, align, rates_by_source, reference_words

SOURCE = Path("a.wav")
FIRST = Part(SOURCE, "The cat sat on the mat.", 10.0, 13.0)  # half a second a word
SECOND = Part(SOURCE, "AND THEN IT PURRED", 14.0, 18.0)  # a second a word


def aligned(text: str) -> tuple[WordErrors, list[DeletedWords]]:
    return align(SOURCE, reference_words([FIRST, SECOND]), text)


def runs(text: str) -> list[tuple[str, float, float, int]]:
    _, found = aligned(text)
    return [(run.words, run.start, run.end, run.first_word) for run in found]


def test_words_divide_the_time_of_their_part() -> None:
    words = reference_words([FIRST, SECOND])
    assert " ".join(word.text for word in words) == "the cat sat on the mat and then it purred"
    assert [word.start_s for word in words[:3]] == [10, 10.5, 11]
    assert words[5].end_s == 13
    assert (words[6].start_s, words[6].end_s) == (14, 15)


def test_the_normaliser_sees_one_part_after_the_other() -> None:
    # "twenty one" would be 21 if the parts were one text, and of neither part's time.
    parts = [Part(SOURCE, "in nineteen twenty", 0, 2), Part(SOURCE, "one cat", 3, 4)]
    assert [word.text for word in reference_words(parts)] == ["in", "1920", "one", "cat"]
    assert [word.start_s for word in reference_words(parts)] == [0, 1, 3, 3.5]


def test_a_part_of_which_nothing_is_left_has_no_words() -> None:
    parts = [Part(SOURCE, "", 0, 1), Part(SOURCE, "[noise]", 1, 2), Part(SOURCE, "yes", 2, 3)]
    assert [word.text for word in reference_words(parts)] == ["yes"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The cat sat on the mat, and then it purred.", []),
        # Two words are not a run.
        ("The cat sat on and then it purred", []),
        ("On the mat, and then it purred.", [("the cat sat", 10.0, 11.5, 0)]),
        ("The cat sat on the mat and", [("then it purred", 15.0, 18.0, 7)]),
        # From one utterance into the next.
        ("The cat sat on purred", [("the mat and then it", 12.0, 17.0, 4)]),
        ("", [("the cat sat on the mat and then it purred", 10.0, 18.0, 0)]),
        # Other words in their place are substitutions.
        ("The cat sat on a dog ran off it purred", []),
    ],
)
def test_runs_of_deleted_words(text: str, expected: list[tuple[str, float, float, int]]) -> None:
    assert runs(text) == expected


def test_two_runs_are_separate() -> None:
    parts = [Part(SOURCE, "one day a fox came and saw the grapes on high", 0.0, 11.0)]
    _, found = align(SOURCE, reference_words(parts), "one came and saw high")
    assert [(run.words, run.start, run.end) for run in found] == [
        ("day a fox", 1.0, 4.0),
        ("the grapes on", 7.0, 10.0),
    ]


@pytest.mark.parametrize("text", ["the cat sat the mat and than it it purred", "no", ""])
def test_counts_are_those_of_jiwer(text: str) -> None:
    found, _ = aligned(text)
    expected = jiwer.process_words("the cat sat on the mat and then it purred", text)
    assert (found.substitutions, found.deletions, found.insertions) == (
        expected.substitutions,
        expected.deletions,
        expected.insertions,
    )
    assert found.words == 10
    assert found.wer == pytest.approx(expected.wer)


def test_word_errors_by_source() -> None:
    pairs = [("one", "a cat"), ("two", "a dog"), ("one", "two mice")]
    utterances = [ManifestEntry(SOURCE, text, source=source) for source, text in pairs]
    rates = rates_by_source(utterances, ["a cat", "a hog", "two mice"])
    assert list(rates.items()) == [("one", "0.00"), ("two", "50.00"), ("all", "16.67")]
