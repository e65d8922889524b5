from pathlib import Path

import jiwer
import pytest

from lab.alignment import Alignment, align, reference_words
from lab.parts import Part

SOURCE = Path("a.wav")
FIRST = Part(SOURCE, "The cat sat on the mat.", 10.0, 13.0)  # half a second a word
SECOND = Part(SOURCE, "AND THEN IT PURRED", 14.0, 18.0)  # a second a word


def aligned(text: str) -> Alignment:
    return align(reference_words([FIRST, SECOND]), text)


def runs(text: str) -> list[tuple[str, float, float, int]]:
    return [
        (run.text, run.start_s, run.end_s, run.first_word) for run in aligned(text).deleted_runs
    ]


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
    found = align(reference_words(parts), "one came and saw high").deleted_runs
    assert [(run.text, run.start_s, run.end_s) for run in found] == [
        ("day a fox", 1.0, 4.0),
        ("the grapes on", 7.0, 10.0),
    ]


@pytest.mark.parametrize("text", ["the cat sat the mat and than it it purred", "no", ""])
def test_counts_are_those_of_jiwer(text: str) -> None:
    found = aligned(text).errors
    expected = jiwer.process_words("the cat sat on the mat and then it purred", text)
    assert (found.substitutions, found.deletions, found.insertions) == (
        expected.substitutions,
        expected.deletions,
        expected.insertions,
    )
    assert found.words == 10
    assert found.wer == pytest.approx(expected.wer)
