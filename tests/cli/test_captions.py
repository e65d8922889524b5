from dataclasses import replace

import pytest
from live_answers import ROLLING, answer, segment, spoken, words

from conch.cli.captions import Caption, Captions, Line, cut
from conch.wire import subtitles
from conch.wire.result import OpenUtterance


def test_the_open_utterance_has_three_parts() -> None:
    said = spoken("Good", "day to", "yu al")
    one = answer("Good day to yu al", stable="Good", utterance=said, rolling=ROLLING)
    assert Captions(has_second_pass=True).after(one) == Caption(
        (), (Line("Good", "day to", "yu al"),)
    )


@pytest.fixture
def captions() -> Captions:
    return Captions(has_second_pass=True)


def test_silence_shows_nothing(captions: Captions) -> None:
    assert captions.after(answer("")) == Caption((), ())
    assert captions.after(answer("", utterance=spoken(""), rolling=ROLLING)) == Caption((), ())


def test_an_utterance_stays_until_its_second_pass_while_the_next_one_is_spoken(
    captions: Captions,
) -> None:
    first = segment("Good day two", 0)
    ended = captions.after(answer("Good day two", first, stable="Good day", rolling=ROLLING))
    assert ended == Caption((), (Line("Good day", "two"),))
    said = spoken("", "", "how are")
    both = captions.after(
        answer("Good day two how are", stable="Good day", utterance=said, rolling=ROLLING)
    )
    assert both == Caption((), (Line("Good day", "two"), Line(newest="how are")))
    done = segment("Good day to you.", 0, passes=2)
    stable = "Good day to you."
    last = captions.after(
        answer(f"{stable} how are", done, stable=stable, utterance=said, rolling=ROLLING)
    )
    assert last == Caption((stable,), (Line(newest="how are"),))
    same = captions.after(
        answer(f"{stable} how are", stable=stable, utterance=said, rolling=ROLLING)
    )
    assert same == Caption((), (Line(newest="how are"),))


def test_utterances_become_final_in_order(captions: Captions) -> None:
    captions.after(answer("one two", segment("one", 0), segment("two", 1), rolling=ROLLING))
    early = captions.after(answer("one Two.", segment("Two.", 1, passes=2), rolling=ROLLING))
    assert early == Caption((), (Line(tentative="one"), Line(tentative="Two.")))
    late = captions.after(
        answer("one Two.", segment("one", 0, error="no time"), stable="one Two.", rolling=ROLLING)
    )
    assert late == Caption(("one", "Two."), ())


def test_an_utterance_without_text_is_no_line_and_may_still_get_one(captions: Captions) -> None:
    assert captions.after(answer("", segment("", 0), rolling=ROLLING)) == Caption((), ())
    assert captions.after(answer("two", segment("two", 1), rolling=ROLLING)).open == (
        Line(tentative="two"),
    )
    one, two = segment("One.", 0, passes=2), segment("Two.", 1, passes=2)
    result = captions.after(answer("One. Two.", one, two, stable="One. Two.", rolling=ROLLING))
    assert result == Caption(("One.", "Two."), ())
    assert captions.after(answer("One. Two.", segment("", 2, passes=2), rolling=ROLLING)) == (
        Caption((), ())
    )


def test_one_pass_is_final_when_the_utterance_ends() -> None:
    captions = Captions(has_second_pass=False)
    said = spoken("good", "", "day")
    assert captions.after(answer("good day", stable="good", utterance=said)).open == (
        Line("good", newest="day"),
    )
    said = spoken("", "", "how")
    ended = captions.after(
        answer("good day how", segment("good day", 0), stable="good day", utterance=said)
    )
    assert ended == Caption(("good day",), (Line(newest="how"),))
    last = [segment("good day", 0), segment("how", 1)]
    stable = "good day how"
    assert captions.after(answer(stable, *last, stable=stable, is_final=True)) == Caption(
        ("how",), ()
    )


@pytest.mark.parametrize("repeated", ["", "Long ago. "])
def test_an_answer_may_repeat_what_is_final_or_not(captions: Captions, repeated: str) -> None:
    long_ago = segment("Long ago.", 0, passes=2)
    captions.after(answer("Long ago.", long_ago, stable="Long ago.", rolling=ROLLING))
    said = spoken("three")
    told = answer(
        f"{repeated}one two three",
        segment("one two", 1),
        stable=f"{repeated}one",
        utterance=said,
        rolling=ROLLING,
    )
    assert captions.after(told) == Caption((), (Line("one", "two"), Line("three")))
    done = segment("One, two.", 1, passes=2)
    told = answer("One, two. three", done, stable="One, two.", utterance=said, rolling=ROLLING)
    assert captions.after(told) == Caption(("One, two.",), (Line("three"),))


def test_one_pass_of_a_server_without_whisper_where_two_are_expected(captions: Captions) -> None:
    captions.after(answer("", segment("", 0)))
    said = spoken("how")
    told = answer("good day how", segment("good day", 1), stable="good day how", utterance=said)
    assert captions.after(told) == Caption(("good day",), (Line("how"),))


def test_the_last_answer_makes_all_final(captions: Captions) -> None:
    captions.after(answer("good day", segment("good day", 0), rolling=ROLLING))
    last = answer("good day", segment("good day", 0), rolling=ROLLING, is_final=True)
    assert captions.after(last) == Caption(("good day",), ())
    assert captions.after(last) == Caption((), ())


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (20, Line("ab cd", "ef", "gh")),
        (11, Line("ab cd", "ef", "gh")),
        (10, Line("b cd", "ef", "gh")),
        (8, Line("cd", "ef", "gh")),
        (6, Line("", "ef", "gh")),
        (4, Line("", "f", "gh")),
        (3, Line("", "", "gh")),
        (1, Line("", "", "h")),
    ],
)
def test_a_line_is_cut_at_its_left(columns: int, expected: Line) -> None:
    result = cut(Line("ab cd", "ef", "gh"), columns)
    assert result == expected
    assert subtitles.columns(result.text) <= columns


def test_wide_characters_count_twice_and_marks_not_at_all() -> None:
    assert subtitles.columns("今日はA") == 7
    assert subtitles.columns("e\u0301te\u0301") == 3
    assert cut(Line(newest="今日は"), 5) == Line(newest="日は")
    assert cut(Line("今日", newest="は"), 4) == Line("", newest="は")
    assert cut(Line(newest="xe\u0301y"), 1) == Line(newest="y")
    assert cut(Line(newest="xe\u0301y"), 2) == Line(newest="e\u0301y")


def test_a_change_of_the_speaker_begins_a_line_or_is_named_in_it() -> None:
    captions = Captions(has_second_pass=False)
    said = tuple(
        replace(word, speaker=who) for word, who in zip(words("Shall we? Yes."), "AAB", strict=True)
    )
    open_one = captions.after(answer("", utterance=OpenUtterance(0.0, said[:2], (), said[2:])))
    assert open_one.open == (Line("A: Shall we?", "", "B: Yes."),)
    ended = replace(segment("Shall we? Yes.", 0), words=said, speaker="A")
    assert captions.after(answer("", ended)).final == ("A: Shall we?", "B: Yes.")
