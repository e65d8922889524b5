import io
import signal
from contextlib import closing
from functools import partial

import pytest
from live_answers import ROLLING, answer, segment, spoken
from screen import Screen, terminal_of

from conch.cli.stream import Interrupts, Writer, report
from conch.client import Resumption
from conch.wire.errors import ServerError, ServerLostError
from conch.wire.options import RecognitionOptions
from conch.wire.result import Transcript

TWO_PASS = RecognitionOptions.parse({"mode": "two_pass"}, live=True)

two_pass = partial(answer, rolling=ROLLING)
ANSWERS = (
    two_pass(""),
    two_pass("good day", utterance=spoken("", "", "good day")),
    two_pass("Good day to yu", stable="Good", utterance=spoken("Good", "day to", "yu")),
    two_pass("Good day to yu", segment("Good day to yu", 0), stable="Good"),
    two_pass("Good day to yu how", stable="Good", utterance=spoken("", "", "how")),
    two_pass(
        "Good day to you. how",
        segment("Good day to you.", 0, passes=2),
        stable="Good day to you.",
        utterance=spoken("", "", "how"),
    ),
    two_pass(
        "Good day to you. How?",
        segment("Good day to you.", 0, passes=2),
        segment("How?", 1, passes=2),
        stable="Good day to you. How?",
        is_final=True,
    ),
)


def test_a_terminal_shows_each_answer() -> None:
    screen, views = Screen(60), []
    with (
        terminal_of(60) as (terminal, read),
        closing(Writer(terminal, TWO_PASS, is_json=False)) as show,
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
    with closing(Writer(out, TWO_PASS, is_json=False)) as show:
        for item in ANSWERS:
            show(item)
            written.append(out.getvalue())
    assert written[:-2] == [""] * 5
    assert written[-2:] == ["Good day to you.\n", "Good day to you.\nHow?\n"]


def test_a_stream_that_breaks_off_leaves_what_was_known_of_it() -> None:
    out = io.StringIO()
    with (
        pytest.raises(ServerError),
        closing(Writer(out, TWO_PASS, is_json=False)) as show,
    ):
        for item in ANSWERS[:-1]:
            show(item)
        raise ServerError("the connection is lost")
    assert out.getvalue() == "Good day to you.\nhow\n"


def test_json_is_every_answer_on_a_line() -> None:
    out = io.StringIO()
    with closing(Writer(out, TWO_PASS, is_json=True)) as show:
        for item in ANSWERS:
            show(item)
    result = [Transcript.from_json(line) for line in out.getvalue().splitlines()]
    assert result == list(ANSWERS)


LOSS = Resumption(
    ServerLostError("lost the connection to grpc://gpu-box:8001: Socket closed; send it again"),
    *(4.2, 1.75, 12.34),
)
SAID = (
    "conch: lost the connection to grpc://gpu-box:8001: Socket closed; continued after 12.3 s, "
    "1.8 s of audio sent again"
)


@pytest.mark.parametrize("is_json", [False, True])
def test_a_loss_is_told_once_on_one_line(capsys: pytest.CaptureFixture[str], is_json: bool) -> None:
    out = io.StringIO()
    with closing(Writer(out, TWO_PASS, is_json=is_json)) as show:
        num_reported = report((), 0, show)
        num_reported = report((LOSS,), num_reported, show)
        assert capsys.readouterr().err == f"{SAID}\n"
        assert report((LOSS,), num_reported, show) == 1
        assert report((LOSS, LOSS), num_reported, show) == 2
    assert capsys.readouterr().err == f"{SAID}\n"
    assert out.getvalue() == ""


def test_on_a_terminal_a_loss_is_told_above_what_may_change() -> None:
    screen = Screen(120)
    with (
        terminal_of(120) as (terminal, read),
        closing(Writer(terminal, TWO_PASS, is_json=False)) as show,
    ):
        show(ANSWERS[2])
        report((LOSS,), 0, show)
        screen.feed(read())
        assert screen.rows == [SAID, "Good day to yu"]
        show(ANSWERS[3])
        screen.feed(read())
        assert screen.rows == [SAID, "Good day to yu"]


def test_the_first_ctrl_c_is_noted_and_the_second_one_raises() -> None:
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), Interrupts() as interrupts:
        signal.raise_signal(signal.SIGINT)
        assert interrupts.pressed
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_the_first_ctrl_c_raises_while_a_server_is_looked_for() -> None:
    with pytest.raises(KeyboardInterrupt), Interrupts() as interrupts:
        interrupts.end_at_once = True
        signal.raise_signal(signal.SIGINT)
    assert not interrupts.pressed
