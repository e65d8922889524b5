from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import pytest
from live_answers import ROLLING, answer, segment, spoken, words
from screen import Screen, set_size, terminal_of

from conch.cli.captions import NEWEST, TENTATIVE, Caption, Captions, Line, OpenLines, cut
from conch.wire import subtitles
from conch.wire.result import OpenUtterance

two_pass = partial(answer, rolling=ROLLING)


def test_the_open_utterance_has_three_parts() -> None:
    said = spoken("Good", "day to", "yu al")
    one = two_pass("Good day to yu al", stable="Good", utterance=said)
    assert Captions(has_second_pass=True).after(one) == Caption(
        (), (Line("Good", "day to", "yu al"),)
    )


@pytest.fixture
def captions() -> Captions:
    return Captions(has_second_pass=True)


def test_silence_shows_nothing(captions: Captions) -> None:
    assert captions.after(answer("")) == Caption((), ())
    assert captions.after(two_pass("", utterance=spoken(""))) == Caption((), ())


def test_an_utterance_stays_until_its_second_pass_while_the_next_one_is_spoken(
    captions: Captions,
) -> None:
    first = segment("Good day two", 0)
    ended = captions.after(two_pass("Good day two", first, stable="Good day"))
    assert ended == Caption((), (Line("Good day", "two"),))
    said = spoken("", "", "how are")
    both = captions.after(two_pass("Good day two how are", stable="Good day", utterance=said))
    assert both == Caption((), (Line("Good day", "two"), Line(newest="how are")))
    done = segment("Good day to you.", 0, passes=2)
    stable = "Good day to you."
    last = captions.after(two_pass(f"{stable} how are", done, stable=stable, utterance=said))
    assert last == Caption((stable,), (Line(newest="how are"),))
    same = captions.after(two_pass(f"{stable} how are", stable=stable, utterance=said))
    assert same == Caption((), (Line(newest="how are"),))


def test_utterances_become_final_in_order(captions: Captions) -> None:
    captions.after(two_pass("one two", segment("one", 0), segment("two", 1)))
    early = captions.after(two_pass("one Two.", segment("Two.", 1, passes=2)))
    assert early == Caption((), (Line(tentative="one"), Line(tentative="Two.")))
    late = captions.after(
        two_pass("one Two.", segment("one", 0, error="no time"), stable="one Two.")
    )
    assert late == Caption(("one", "Two."), ())


def test_an_utterance_without_text_is_no_line_and_may_still_get_one(captions: Captions) -> None:
    assert captions.after(two_pass("", segment("", 0))) == Caption((), ())
    assert captions.after(two_pass("two", segment("two", 1))).open == (Line(tentative="two"),)
    one, two = segment("One.", 0, passes=2), segment("Two.", 1, passes=2)
    result = captions.after(two_pass("One. Two.", one, two, stable="One. Two."))
    assert result == Caption(("One.", "Two."), ())
    assert captions.after(two_pass("One. Two.", segment("", 2, passes=2))) == (Caption((), ()))


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
    captions.after(two_pass("Long ago.", long_ago, stable="Long ago."))
    said = spoken("three")
    told = two_pass(
        f"{repeated}one two three", segment("one two", 1), stable=f"{repeated}one", utterance=said
    )
    assert captions.after(told) == Caption((), (Line("one", "two"), Line("three")))
    done = segment("One, two.", 1, passes=2)
    told = two_pass("One, two. three", done, stable="One, two.", utterance=said)
    assert captions.after(told) == Caption(("One, two.",), (Line("three"),))


def test_one_pass_of_a_server_without_whisper_where_two_are_expected(captions: Captions) -> None:
    captions.after(answer("", segment("", 0)))
    said = spoken("how")
    told = answer("good day how", segment("good day", 1), stable="good day how", utterance=said)
    assert captions.after(told) == Caption(("good day",), (Line("how"),))


def test_the_last_answer_makes_all_final(captions: Captions) -> None:
    captions.after(two_pass("good day", segment("good day", 0)))
    last = two_pass("good day", segment("good day", 0), is_final=True)
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


FIRM_LINE = Line("Nobody can tell", "what they", "wil bring")


def test_three_shades_below_what_is_final() -> None:
    screen = Screen(60)
    with terminal_of(60) as (terminal, read):
        lines = OpenLines(terminal, {"TERM": "xterm"})
        lines.show(["Good day."], [Line(tentative="how are"), FIRM_LINE])
        screen.feed(read())
        assert screen.rows == ["Good day.", "how are", "Nobody can tell what they wil bring"]
        shades = [screen.shade_of(text) for text in ("Nobody can tell", "what they", "wil bring")]
        assert shades == [{""}, {"2"}, {"2;90"}]
        assert screen.shade_of("how are") == {"2"}
        lines.show(["How are you?"], [])
        screen.feed(read())
        assert screen.rows == ["Good day.", "How are you?"]


def test_nothing_is_written_where_nothing_changes() -> None:
    with terminal_of(60) as (terminal, read):
        lines = OpenLines(terminal, {})
        lines.show([], [])
        assert read() == ""
        lines.show([], [FIRM_LINE])
        assert read() != ""
        lines.show([], [FIRM_LINE])
        assert read() == ""
        # A word that becomes firm changes its shade alone.
        lines.show([], [Line("Nobody can tell what", "they", "wil bring")])
        assert read() != ""
        lines.show([], [])
        assert read() != ""
        lines.show([], [])
        assert read() == ""


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_without_shades(environment: dict[str, str]) -> None:
    screen = Screen(60)
    with terminal_of(60) as (terminal, read):
        lines = OpenLines(terminal, environment)
        lines.show([], [FIRM_LINE])
        lines.show(["Good day."], [Line("Nobody")])
        written = read()
        assert TENTATIVE not in written and NEWEST not in written and "\x1b[0m" not in written
        screen.feed(written)
    assert [row.rstrip() for row in screen.rows] == ["Good day.", "Nobody"]


def test_a_dumb_terminal_gets_one_line_and_no_control_codes() -> None:
    with terminal_of(60) as (terminal, read):
        lines = OpenLines(terminal, {"TERM": "dumb"})
        lines.show([], [Line("one"), Line("two", "three")])
        written = read()
        assert written.strip() == "one two three"
        lines.show([], [])
        assert "\x1b" not in written + read()


def test_no_color_that_is_empty_leaves_the_shades() -> None:
    with terminal_of(60) as (terminal, read):
        OpenLines(terminal, {"NO_COLOR": ""}).show([], [FIRM_LINE])
        assert NEWEST in read()


@pytest.mark.parametrize("wraps_anew", [True, False])
@pytest.mark.parametrize("columns", [7, 20, 35, 36, 60, 200])
def test_a_resize_leaves_no_debris(columns: int, wraps_anew: bool) -> None:
    screen = Screen(60, wraps_anew)
    long = Line(" ".join(f"word{number}" for number in range(30)), "and", "more")
    with terminal_of(60) as (terminal, read):
        lines = OpenLines(terminal, {})
        lines.show(["Done."], [FIRM_LINE, long])
        screen.feed(read())
        assert len(screen.rows) == 3
        screen.resize(columns)
        set_size(terminal.fileno(), columns)
        lines.show([], [FIRM_LINE, long])
        screen.feed(read())
        first, *shown = screen.rows
        assert first == "Done."
        assert len(shown) == 2
        assert all(0 < len(row) < columns for row in shown)
        lines.show(["Next."], [Line(newest="x")])
        screen.feed(read())
        assert screen.rows == ["Done.", "Next.", "x"]


def test_a_line_that_the_terminal_counts_as_wider_is_clipped() -> None:
    screen = Screen(60)
    with terminal_of(70) as (terminal, read):  # it became narrower while we wrote
        lines = OpenLines(terminal, {})
        lines.show(["a" * 70], [Line("x" * 200), Line("y" * 200)])
        screen.feed(read())
        assert screen.rows == ["a" * 60, "a" * 10, "x" * 60, "y" * 60]
        lines.show(["Done."], [])
        screen.feed(read())
    assert screen.rows == ["a" * 60, "a" * 10, "Done."]


def test_what_follows_a_broken_stream_goes_below_what_is_shown() -> None:
    screen = Screen(60)
    with terminal_of(60) as (terminal, read):
        lines = OpenLines(terminal, {})
        lines.show(["Done."], [Line("one"), Line("two")])
        lines.close()
        terminal.write("conch: no server\n")
        terminal.flush()
        screen.feed(read())
    assert screen.rows == ["Done.", "one", "two", "conch: no server"]


@pytest.mark.parametrize(
    ("columns", "rows", "texts", "shown"),
    [(60, 3, "012345678", ["7", "8"]), (0, 0, ["x" * 200], ["x" * 79])],
    ids=["more lines than it has", "it does not tell its size"],
)
def test_what_a_terminal_has_no_room_for(
    columns: int, rows: int, texts: Sequence[str], shown: list[str]
) -> None:
    with terminal_of(columns, rows=rows) as (terminal, read):
        OpenLines(terminal, {}).show([], [Line(text) for text in texts])
        screen = Screen(columns or 80)
        screen.feed(read())
    assert screen.rows == shown
