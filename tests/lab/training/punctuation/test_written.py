"""Printed texts to what a listener would write."""

import pytest

from conch.families.punctuation.model import CAPITAL, LOWER, UPPER
from lab.training.punctuation.collect import lines_of, paragraphs_of_chapter
from lab.training.punctuation.written import case_of, line_of, printed_words, words_of_line


@pytest.mark.parametrize(
    ("printed", "heard"),
    [
        ("“Well,” he said, “why?”", "Well, he said, why?"),
        ("Mr. Smith left—at 5 p.m.—for the well-known U.S. port.",
         "Mister Smith left, at five p m, for the well known U S port."),
        ("“Go!” cried John; it was I.", "Go, cried John, it was I."),
        ("Stop! He left.", "Stop. He left."),
        ("I don\u2019t know… But it\u2019s 1865!", "I don't know. But it's eighteen sixty five."),
        ("the boys\u2019 \u2018own\u2019 3,000 dollars", "the boys own three thousand dollars"),
        ("He said:", "He said."),
        ("", ""),
    ],
)  # fmt: skip
def test_a_paragraph_as_it_is_heard(printed, heard):
    words = printed_words(printed)
    assert line_of(words) == heard
    assert words_of_line(heard) == words


def test_digits_stay_where_nobody_spells_them():
    assert line_of(printed_words("In 1865, 3.5 miles.", spell=False)) == "In 1865, 3.5 miles."


def test_a_part_of_a_sentence_keeps_its_mark():
    assert line_of(printed_words("fine in form;", whole=False)) == "fine in form,"


def test_cases():
    words = ("don't", "Don't", "I", "USA", "McDonald", "3rd", "O'NEIL")
    assert [case_of(word) for word in words] == [
        *(LOWER, CAPITAL, CAPITAL, UPPER, CAPITAL, LOWER, CAPITAL)
    ]


def test_a_chapter_of_a_book():
    chapter = """<html xmlns="http://www.w3.org/1999/xhtml"
        xmlns:epub="http://www.idpf.org/2007/ops"><body><section>
        <header><p>By Somebody</p></header>
        <p>It <em>was</em>
        late.<a epub:type="noteref">1</a></p>
        <blockquote epub:type="z3998:verse"><p>Tiger, tiger</p></blockquote>
        <blockquote><p>She left.</p></blockquote>
        </section></body></html>"""
    assert list(paragraphs_of_chapter(chapter)) == ["It was late.", "She left."]


def test_what_others_quote_is_left_out(tmp_path):
    (tmp_path / "in.txt").write_text(
        "A TITLE\nHe was never seen again by anyone.\nYes, sir.\nWe won. (Applause.) Thank you.\n"
    )
    (tmp_path / "test.txt").write_text("so he was never seen again there\nYes sir.\n")
    found = list(lines_of([tmp_path / "in.txt"], [tmp_path / "test.txt"]))
    assert found == ["We won.  Thank you."]
