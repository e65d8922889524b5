"""Progress on stderr, if that is a terminal.

A long file is requested as a stream of segments, which show how much audio is done. The answer for
a short file comes as a whole.
"""

import asyncio
import io
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TextIO

from conch.audio.intake import length_of
from conch.cli.terminal import size_of

TICK_S = 0.5
"""Seconds between two updates of the line."""

LONG_S = 30.0
"""Audio longer than this is requested as a stream; shorter audio takes a few seconds."""

STDIN = "-"
MIN_NAME_CHARS = 12
FIGURES_CHARS = 60
"""Columns for the figures after a file's name."""
CLEAR = "\r\x1b[K"
"""Control codes that empty the last line of a terminal."""


class Progress:
    """The line on the terminal while files are transcribed."""

    def __init__(
        self, names: Sequence[str], stdin: bytes, *, can_stream: bool, is_text_shown: bool
    ) -> None:
        """Find the lengths of the files if they are shown.

        Args:
            is_text_shown: whether the text goes to a terminal, each segment as soon as it is final.
        """
        self._line = _Line(sys.stderr)
        # Only if it is shown: finding the length of an mp3 means reading all of it.
        is_watched = self._line.is_shown or is_text_shown
        self._lengths: Mapping[str, float | None] = {
            name: _length(name, stdin) if is_watched else 0.0 for name in names
        }
        self._names, self._can_stream = names, can_stream
        self._total = sum(self._lengths[name] or 0.0 for name in names)
        self._done = 0.0
        self._num_done = 0
        self._started = time.monotonic()

    def __enter__(self) -> "Progress":
        self._started = time.monotonic()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._line.clear()

    async def tick(self) -> None:
        """Update the line until cancelled."""
        while True:
            self.show()
            await asyncio.sleep(TICK_S)

    def show(self) -> None:
        """Update the line."""
        self._line.show(self.text(time.monotonic() - self._started, self._line.columns))

    def text(self, elapsed_s: float, columns: int) -> str:
        """Return the text of the line after `elapsed_s` seconds, for `columns` columns."""
        if len(self._names) > 1:
            title = f"{self._num_done} of {len(self._names)} files"
        else:
            title = "stdin" if self._names[0] == STDIN else Path(self._names[0]).name
            room = max(MIN_NAME_CHARS, columns - FIGURES_CHARS)
            title = title if len(title) <= room else f"{title[: room - 1]}…"
        figures = figures_of(self._done, self._total, elapsed_s)
        if not self._can_stream and not self._done:
            figures = [
                *([f"{_clock(self._total)} of audio"] if self._total else []),
                f"{_clock(elapsed_s)} waited",
                "over http:// the text comes as a whole",
            ]
        return "  ".join([title, *figures])

    def file(self, name: str) -> "FileProgress":
        """Return the progress of one file."""
        length = self._lengths[name]
        is_long = length is None or length > LONG_S
        return FileProgress(self, length, self._can_stream and is_long)

    def add(self, seconds: float, files: int = 0) -> None:
        """Add seconds of audio and files that are done."""
        self._done += seconds
        self._num_done += files
        self.show()

    def write(self, text: str, stream: TextIO) -> None:
        """Write a text above the line."""
        self._line.clear()
        stream.write(text)
        stream.flush()
        self.show()


class FileProgress:
    """The progress of one file."""

    def __init__(self, progress: Progress, length: float | None, is_streamed: bool) -> None:
        self._progress = progress
        self._length = length
        self._reached = 0.0
        self.is_streamed = is_streamed
        """Whether to request the file as a stream."""

    @property
    def model(self) -> str:
        """The entry point that the file goes to."""
        return "speech_stream" if self.is_streamed else "speech"

    def reached(self, seconds: float, files: int = 0) -> None:
        """Note that the audio is done up to this second of the file, and that files are done."""
        # A segment may end a little after the length in the file's header.
        seconds = seconds if self._length is None else min(seconds, self._length)
        self._progress.add(seconds - self._reached, files)
        self._reached = seconds

    def done(self) -> None:
        """Note that the file is done, or has failed."""
        self.reached(self._reached if self._length is None else self._length, files=1)


class _Line:
    """The last line of a terminal, overwritten at each update; nothing without a terminal."""

    def __init__(self, terminal: TextIO) -> None:
        self._terminal = terminal
        self.is_shown = terminal.isatty()
        self._shown = ""

    @property
    def columns(self) -> int:
        """Columns of the terminal."""
        return size_of(self._terminal).columns

    def show(self, text: str) -> None:
        text = text[: self.columns - 1]
        if self.is_shown and text != self._shown:
            self._terminal.write(f"{CLEAR}{text}")
            self._terminal.flush()
            self._shown = text

    def clear(self) -> None:
        if self._shown:
            self._terminal.write(CLEAR)
            self._terminal.flush()
            self._shown = ""


def figures_of(done_s: float, total_s: float, elapsed_s: float) -> list[str]:
    """Return how much audio is done, how fast, and how long the rest takes at that speed.

    Args:
        total_s: seconds of audio in all; 0 if they are not known.
    """
    figures = (
        [f"{done_s / total_s:.0%}", f"{_clock(done_s)} of {_clock(total_s)}"]
        if total_s
        else [f"{_clock(done_s)} done"]
    )
    if not done_s or not elapsed_s:
        return [*figures, f"{_clock(elapsed_s)} waited"]
    speed = done_s / elapsed_s
    figures.append(f"{speed:.{0 if speed >= 10 else 1}f}x real time")
    if total_s:
        figures.append(f"{_clock(max(0.0, total_s - done_s) / speed)} left")
    return figures


def _clock(seconds: float) -> str:
    minutes, whole = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{whole:02d}" if hours else f"{minutes}:{whole:02d}"


def _length(name: str, stdin: bytes) -> float | None:
    """Return the seconds of audio in a file, None if they are not known."""
    if name == STDIN:
        return length_of(io.BytesIO(stdin))
    if not Path(name).is_file():  # do not read a pipe here
        return None
    with Path(name).open("rb") as file:
        return length_of(file)
