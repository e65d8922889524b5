from collections.abc import Sequence

import pytest
from screen import Screen, set_size, terminal_of

from conch.cli.captions import NEWEST, TENTATIVE, Line, OpenLines

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
