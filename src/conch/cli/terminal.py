"""The last lines of a terminal, redrawn below lines that stay."""

import os
from collections.abc import Mapping, Sequence
from typing import TextIO

from conch.cli.captions import Line, cut, width_of
from conch.wire.joining import joined_text, separator

DEFAULT_SIZE = os.terminal_size((80, 24))

TENTATIVE, NEWEST, PLAIN = "\x1b[2m", "\x1b[2;90m", "\x1b[0m"
"""Select Graphic Rendition (ECMA-48): faint; faint and grey; neither."""
CLEAR = "\r\x1b[J"
"""Control codes that empty the terminal from the present line on."""
CLIP, WRAP = "\x1b[?7l", "\x1b[?7h"
"""Control codes after which a line that is too long is clipped, or wraps (DECAWM)."""


def size_of(terminal: TextIO) -> os.terminal_size:
    """Return columns and lines of a terminal.

    Some report 0, as under `script` or `docker exec -t`.
    """
    try:
        columns, lines = os.get_terminal_size(terminal.fileno())
    except OSError:
        return DEFAULT_SIZE
    return os.terminal_size((columns or DEFAULT_SIZE.columns, lines or DEFAULT_SIZE.lines))


class OpenLines:
    """Lines in three shades at the end of a terminal, drawn again when they change.

    The cursor waits in front of them, and a resize leaves it there. So everything behind it can be
    emptied, whether the terminal rewraps long lines or cuts them.
    """

    def __init__(self, terminal: TextIO, environment: Mapping[str, str]) -> None:
        """`NO_COLOR` in `environment`, if not empty, turns the shades off (https://no-color.org).

        So does `TERM=dumb`, where the lines become one.
        """
        self._terminal = terminal
        self._is_dumb = environment.get("TERM") == "dumb"
        self._is_shaded = not (self._is_dumb or environment.get("NO_COLOR"))
        self._shown: list[Line] = []

    def show(self, final: Sequence[str], lines: Sequence[Line]) -> None:
        """Write lines that stay, and below them those that may change."""
        columns, rows = size_of(self._terminal)
        if self._is_dumb and lines:  # Its cursor does not go up.
            lines = [Line(newest=joined_text(line.text for line in lines))]
        # More lines than rows would scroll the first one away from the cursor.
        ends = [cut(line, max(1, columns - 1)) for line in lines[-max(1, rows - 1) :]]
        shown = [line for line in ends if line.text]
        if not final and shown == self._shown:
            return
        written = self._clear() + "".join(f"{text}\n" for text in final)
        self._terminal.write(written + self._drawn(shown))
        self._terminal.flush()
        self._shown = shown

    def close(self) -> None:
        """Leave the lines as they are, and continue below them."""
        self._terminal.write("\n" * len(self._shown))
        self._terminal.flush()
        self._shown = []

    def _clear(self) -> str:
        if self._is_dumb:
            return f"\r{' ' * sum(width_of(line.text) for line in self._shown)}\r"
        return CLEAR

    def _drawn(self, lines: Sequence[Line]) -> str:
        if not lines or self._is_dumb:
            return "".join(f"{line.text}\r" for line in lines)
        # A terminal may count a character as wider, or have been resized a moment ago.
        drawn = "\n".join(map(self._shaded, lines))
        up = f"\x1b[{len(lines) - 1}A" if len(lines) > 1 else ""
        return f"{CLIP}{drawn}{WRAP}{up}\r"

    def _shaded(self, line: Line) -> str:
        if not self._is_shaded:
            return line.text
        shown, before = "", ""
        for shade, text in (("", line.firm), (TENTATIVE, line.tentative), (NEWEST, line.newest)):
            space = separator(before, text)
            shown += f"{space}{shade}{text}{PLAIN if shade else ''}" if text else ""
            before = text or before
        return shown
