"""Sentences and parts of texts, lazily."""

import itertools
import random

import pytest

from conch.wire.sentences import LONGEST, LONGEST_FIRST, Phrases, halves, sentences


def cut(text: str, longest: int = LONGEST, first: int = LONGEST_FIRST) -> list[str]:
    return [text[piece] for piece in sentences(text, longest, first)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Hello there. How are you?", ["Hello there.", "How are you?"]),
        ("Dr. Smith met J. K. Rowling. She left.", ["Dr. Smith met J. K. Rowling.", "She left."]),
        ("J.R.R. Tolkien, p. 5. See Fig. 3.", ["J.R.R. Tolkien, p. 5.", "See Fig. 3."]),
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


def written(pieces: list[str]) -> list[str]:
    """Return the sentences of a text that comes in pieces."""
    phrases = Phrases()
    result = [item for piece in pieces for item in phrases.added(piece)]
    return [item.strip() for item in result + phrases.added("", is_last=True)]


def test_a_text_in_pieces_has_the_sentences_of_the_whole() -> None:
    rng = random.Random(7)
    words = (
        *("Dr. ", "e.g. ", "3.", "14", " ", ". ", "! ", '." ', "\n", "a", "B", "J. K. ", "…"),
        *("。", ", ", " - ", "No. 5", "www.a.com ", "word", "x" * 90, "   ", "?!", "\r\n", ")"),
    )
    for _ in range(2000):
        text = "".join(rng.choices(words, k=rng.randrange(60)))
        pieces, left = [], text
        while left:
            size = rng.choice((1, 1, 2, 7, 50, 400))
            pieces.append(left[:size])
            left = left[size:]
        assert written(pieces) == cut(text), (text, pieces)


@pytest.mark.parametrize(
    ("text", "full"),
    [
        ("Hello there. ", 0),  # "approx. five" goes on
        ("Hello there. H", 1),
        ("Hello there! ", 1),
        ("Hello there!", 0),
        ('He said "no!" ', 1),
        ("It costs 3. ", 0),
        ("It costs 3.1", 0),
        ("Ask Dr. Smith", 0),
        ("A title\n", 1),
        ("one, " * (LONGEST_FIRST // 5), 0),
        ("one, " * (LONGEST_FIRST // 5) + "t", 1),
        ("第一。", 0),
        ("第一。第", 1),
        (" " * 1000, 0),
    ],
)
def test_a_sentence_comes_when_no_text_can_change_it(text: str, full: int) -> None:
    assert len(Phrases().added(text)) == full


def test_what_was_taken_is_not_kept() -> None:
    phrases = Phrases()
    for _ in range(1000):
        phrases.added("It goes on and on! \n" + " " * 500)
    assert len(phrases._text) < 600


def test_a_long_text_is_read_only_as_far_as_it_is_taken() -> None:
    text = "This is one. " * 100_000
    first = list(itertools.islice(sentences(text), 3))
    assert first[-1] == slice(26, 38)


@pytest.mark.parametrize("run", [" ", ".", '."', "\n", "。"])
def test_a_long_run_is_walked_once(run: str) -> None:
    """Walked for each of its characters, it would hold up all texts of a server for minutes."""
    text = "a" + run * 100_000 + "b"
    assert "".join(Phrases().added(text, is_last=True)) == text


def test_a_stretch_is_halved_between_words() -> None:
    text = "zero one two three four"
    assert [text[piece] for piece in halves(text, slice(5, 23))] == ["one two", "three four"]
    assert halves("abcdef", slice(0, 6)) == (slice(0, 6),)
