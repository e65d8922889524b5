import io

import pytest
from live_answers import ROLLING, answer, segment, spoken
from screen import Screen, terminal_of

from conch.cli.stream import _writer
from conch.wire.errors import ServerError
from conch.wire.options import RecognitionOptions
from conch.wire.result import Transcript

TWO_PASS = RecognitionOptions.parse({"mode": "two_pass"}, live=True)

ANSWERS = (
    answer("", rolling=ROLLING),
    answer("good day", utterance=spoken("", "", "good day"), rolling=ROLLING),
    answer(
        "Good day to yu",
        stable="Good",
        utterance=spoken("Good", "day to", "yu"),
        rolling=ROLLING,
    ),
    answer("Good day to yu", segment("Good day to yu", 0), stable="Good", rolling=ROLLING),
    answer(
        "Good day to yu how",
        stable="Good",
        utterance=spoken("", "", "how"),
        rolling=ROLLING,
    ),
    answer(
        "Good day to you. how",
        segment("Good day to you.", 0, passes=2),
        stable="Good day to you.",
        utterance=spoken("", "", "how"),
        rolling=ROLLING,
    ),
    answer(
        "Good day to you. How?",
        segment("Good day to you.", 0, passes=2),
        segment("How?", 1, passes=2),
        stable="Good day to you. How?",
        rolling=ROLLING,
        is_final=True,
    ),
)


def test_a_terminal_shows_each_answer() -> None:
    screen, views = Screen(60), []
    with (
        terminal_of(60) as (terminal, read),
        _writer(terminal, TWO_PASS, is_json=False) as show,
    ):
        for item in ANSWERS:
            show(item)
            screen.feed(read())
            views.append(screen.rows)
    assert views == [
        [],
        ["good day"],
        ["Good day to yu"],
        ["Good day to yu"],
        ["Good day to yu", "how"],
        ["Good day to you.", "how"],
        ["Good day to you.", "How?"],
    ]


def test_elsewhere_only_final_lines_are_written_each_once_after_its_second_pass() -> None:
    out, written = io.StringIO(), []
    with _writer(out, TWO_PASS, is_json=False) as show:
        for item in ANSWERS:
            show(item)
            written.append(out.getvalue())
    assert written[:-2] == [""] * 5
    assert written[-2:] == ["Good day to you.\n", "Good day to you.\nHow?\n"]


def test_a_stream_that_breaks_off_leaves_what_was_known_of_it() -> None:
    out = io.StringIO()
    with (
        pytest.raises(ServerError),
        _writer(out, TWO_PASS, is_json=False) as show,
    ):
        for item in ANSWERS[:-1]:
            show(item)
        raise ServerError("the connection is lost")
    assert out.getvalue() == "Good day to you.\nhow\n"


def test_json_is_every_answer_on_a_line() -> None:
    out = io.StringIO()
    with _writer(out, TWO_PASS, is_json=True) as show:
        for item in ANSWERS:
            show(item)
    found = [Transcript.from_json(line) for line in out.getvalue().splitlines()]
    assert found == list(ANSWERS)
