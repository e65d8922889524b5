import io

from conch.cli.stream import _Lines
from conch.wire.result import Hypothesis, Segment, Transcript


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def answer(text: str, *segments: Segment, is_final: bool = False) -> Transcript:
    return Transcript((Hypothesis(text, 0, 0),), segments, 1.0, ("vad",), {}, is_final)


def segment(text: str, index: int, passes: int = 1) -> Segment:
    return Segment(0.0, 1.0, (Hypothesis(text, 0, 0),), index=index, passes=passes)


def test_a_terminal_is_written_only_where_something_changes() -> None:
    terminal = Terminal()
    show = _Lines(terminal, has_second_pass=False)
    for text in ("", "", "good", "good", "good day", "good day"):
        show(answer(text))
    assert terminal.getvalue() == "good\r\x1b[Kgood day"
    show(answer("good day", segment("good day", 0)))
    assert terminal.getvalue().endswith("\r\x1b[Kgood day\n")
    written = terminal.getvalue()
    show(answer("good day"))
    show(answer("good day", segment("good day", 0), is_final=True))
    assert terminal.getvalue() == written, "no line behind the last text"


def test_what_is_being_said_goes_on_below_what_is_final() -> None:
    terminal = Terminal()
    show = _Lines(terminal, has_second_pass=False)
    show(answer("good"))
    show(answer("good day how", segment("good day", 0)))
    assert terminal.getvalue() == "good\r\x1b[Kgood day\nhow"


def test_elsewhere_only_final_lines_are_written_each_once_after_its_second_pass() -> None:
    out = io.StringIO()
    show = _Lines(out, has_second_pass=True)
    show(answer("good"))
    show(answer("good day", segment("good day", 0)))
    assert out.getvalue() == ""
    show(answer("Good day.", segment("Good day.", 0, passes=2), is_final=True))
    assert out.getvalue() == "Good day.\n"
