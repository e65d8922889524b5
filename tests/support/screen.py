"""A terminal, as far as `conch.cli` uses one: what a person sees after the control codes."""

import fcntl
import os
import pty
import re
import struct
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TextIO

_CODES = re.compile(r"\x1b\[(\??\d*(?:;\d+)*)([AJmhl])|(\r)|(\n)|([^\x1b\r\n])")


@dataclass
class Screen:
    """Lines of cells, each a character and its shade; a long line wraps.

    A resize wraps lines anew, as VTE, kitty and foot do, or cuts them, as xterm does.
    """

    columns: int
    wraps_anew: bool = True
    lines: list[list[tuple[str, str]]] = field(default_factory=lambda: [[]])
    line: int = 0
    column: int = 0
    """Place of the cursor: a line, and a cell of it."""
    shade: str = ""
    wraps: bool = True
    """Whether a line that is too long wraps, or is clipped."""

    @property
    def rows(self) -> list[str]:
        """Return the rows from the first to the last that holds something."""
        rows = [
            "".join(character for character, _ in line[start : start + self.columns])
            for line in self.lines
            for start in range(0, max(1, len(line)), self.columns)
        ]
        while rows and not rows[-1]:
            rows.pop()
        return rows

    def shade_of(self, text: str) -> set[str]:
        """Return the shades in which the last line that holds a text shows it."""
        for line in reversed(self.lines):
            said = "".join(character for character, _ in line)
            if (start := said.find(text)) >= 0:
                return {shade for _, shade in line[start : start + len(text)]}
        raise AssertionError(f"{text!r} is not in {self.rows}")

    def resize(self, columns: int) -> None:
        if not self.wraps_anew:
            assert all(len(line) <= self.columns for line in self.lines), "not modelled"
            self.lines = [line[:columns] for line in self.lines]
            self.column = min(self.column, columns - 1)
        self.columns = columns

    def feed(self, text: str) -> None:
        text = text.replace("\r\n", "\n")  # the terminal's driver adds the \r
        position = 0
        for found in _CODES.finditer(text):
            assert found.start() == position, f"unknown code: {text[position:][:20]!r}"
            position = found.end()
            number, code, is_return, is_feed, character = found.groups()
            if is_return:
                self.column -= self.column % self.columns
            elif is_feed:
                self._feed_line()
            elif code == "m":
                self.shade = "" if number in ("", "0") else number
            elif code in ("h", "l"):
                assert number == "?7", f"unknown code: {found.group()!r}"
                self.wraps = code == "h"
            elif code == "J":
                del self.lines[self.line + 1 :], self.lines[self.line][self.column :]
            elif code == "A":
                for _ in range(int(number or 1)):
                    self._go_up()
            else:
                line = self.lines[self.line]
                line[self.column : self.column + 1] = [(character, self.shade)]
                self.column += self.wraps or self.column < self.columns - 1
        assert position == len(text), f"unknown code: {text[position:][:20]!r}"

    def _feed_line(self) -> None:
        self.line, self.column = self.line + 1, 0
        if self.line == len(self.lines):
            self.lines.append([])

    def _go_up(self) -> None:
        if self.column >= self.columns:
            self.column -= self.columns
            return
        self.line -= 1
        assert self.line >= 0, "above the first line"
        last = max(0, len(self.lines[self.line]) - 1)
        # The row that a wrapped line ends with.
        self.column = last - last % self.columns + self.column


@contextmanager
def terminal_of(columns: int, rows: int = 24) -> Iterator[tuple[TextIO, Callable[[], str]]]:
    """Yield a terminal, and a function that reads what was written to it since the last call."""
    ours, theirs = pty.openpty()
    set_size(theirs, columns, rows)
    with os.fdopen(theirs, "w") as terminal:

        def read() -> str:
            # The terminal's driver is slow: without a mark, nothing yet looks like nothing.
            terminal.write("\0")
            terminal.flush()
            written = b""
            while not written.endswith(b"\0"):
                written += os.read(ours, 65536)
            return written[:-1].decode()

        yield terminal, read
    os.close(ours)


def set_size(terminal: int, columns: int, rows: int = 24) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
