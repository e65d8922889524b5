"""Sentences and parts of texts, lazily."""

import itertools
import random

import pytest

from conch.wire.sentences import halves, parts, sentences


def cut(text: str, **limits: int) -> list[str]:
    return [text[piece] for piece in sentences(text, **limits)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Hello there. How are you?", ["Hello there.", "How are you?"]),
        ("Dr. Smith met J. K. Rowling. She left.", ["Dr. Smith met J. K. Rowling.", "She left."]),
        ("It costs 3.14 dollars. Yes!", ["It costs 3.14 dollars.", "Yes!"]),
        ("At 7 p.m. we left… Then?", ["At 7 p.m. we left…", "Then?"]),
        ('He said "no." She left.', ['He said "no."', "She left."]),
        ("A title\n\nThe text\nand more", ["A title", "The text", "and more"]),
        ("第一。第二\uff01第三", ["第一。", "第二\uff01", "第三"]),
        ("  \n\t ", []),
        ("", []),
    ],
)
def test_a_text_is_cut_at_the_ends_of_sentences(text: str, found: list[str]) -> None:
    assert cut(text) == found


def test_long_sentences_are_cut_at_clauses_then_words_then_anywhere() -> None:
    assert cut("one two three, four five six", longest=20, first=20) == [
        "one two three,",
        "four five six",
    ]
    assert cut("one two three four", longest=10, first=10) == ["one two", "three four"]
    assert cut("x" * 25, longest=10, first=10) == ["x" * 10, "x" * 10, "x" * 5]
    # Only the first one is shorter.
    assert cut("one two three, four five six", longest=40, first=10) == [
        "one two",
        "three, four five six",
    ]


def test_nothing_gets_lost_and_nothing_is_too_long() -> None:
    rng = random.Random(5)
    for _ in range(300):
        text = "".join(rng.choices("ab. ,!?\n\"'Dr。", k=rng.randrange(200)))
        pieces = list(sentences(text, longest=12, first=5))
        assert all(piece.stop - piece.start <= 12 for piece in pieces)
        between = [0, *itertools.chain(*((p.start, p.stop) for p in pieces)), len(text)]
        gaps = [text[a:b] for a, b in zip(between[::2], between[1::2], strict=True)]
        assert not "".join(gaps).strip()


def test_parts_are_the_text_and_end_with_sentences() -> None:
    text = "One is here. Two is here. Three is here. Four."
    assert list(parts(text, longest=20)) == ["One is here. Two is here.", " Three is here. Four."]
    assert list(parts("", longest=20)) == [""]
    assert list(parts("Hi. \n", longest=2)) == ["Hi."]


def test_a_long_text_is_read_only_as_far_as_it_is_taken() -> None:
    text = "This is one. " * 100_000
    first = list(itertools.islice(sentences(text), 3))
    assert first[-1] == slice(26, 38)


@pytest.mark.parametrize("run", [" ", ".", '."', "\n", "。"])
def test_a_long_run_is_walked_once(run: str) -> None:
    """Walked for each of its characters, it would hold up all texts of a server for minutes."""
    text = "a" + run * 100_000 + "b"
    assert "".join(parts(text)) == text


def test_a_stretch_is_halved_between_words() -> None:
    text = "zero one two three four"
    assert [text[piece] for piece in halves(text, slice(5, 23))] == ["one two", "three four"]
    assert halves("abcdef", slice(0, 6)) == (slice(0, 6),)
