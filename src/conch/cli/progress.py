"""Progress on stderr, for people only: nothing is shown where stderr is not a terminal.

A file that is long enough to wait for is asked for as a stream, and its segments move a bar of
audio done; the answer for any other file comes as a whole. Without a long file there is a count of
files, or for one file a clock.
"""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

import soundfile
from tqdm import tqdm

TICK_S = 0.5

LONG_S = 60.0
"""Audio longer than this is worth a stream: shorter audio is done in a few seconds."""


class Progress:
    """What the screen shows while files are done.

    `can_stream` says whether the server can be asked for streams.
    """

    def __init__(self, names: Sequence[str], *, can_stream: bool) -> None:
        is_shown = sys.stderr.isatty()
        self._names = names
        self._num_done = 0
        # Not looked at where nothing is shown: the length of an mp3 is found by reading it.
        self._lengths = {name: _length(name) if is_shown else 0.0 for name in names}
        self._is_of_audio = can_stream and max(self._lengths.values()) > LONG_S
        if self._is_of_audio:
            self._bar: Any = _AudioBar(
                total=sum(self._lengths[name] for name in names), desc=self._title(), leave=False
            )
        else:
            self._bar = tqdm(
                total=len(names),
                unit="file",
                desc=None if len(names) > 1 else self._title(),
                bar_format=None if len(names) > 1 else "{desc}: {elapsed}",
                leave=False,
                disable=not is_shown,
            )

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._bar.close()

    async def tick(self) -> None:
        """Keep the clock moving, until cancelled."""
        while True:
            self._bar.refresh()
            await asyncio.sleep(TICK_S)

    def file(self, name: str) -> "FileProgress":
        """Return the share that one file has in the progress."""
        length = self._lengths[name]
        return FileProgress(self, length, self._is_of_audio and length > LONG_S)

    def add_audio(self, seconds: float) -> None:
        """Count audio that is done."""
        if self._is_of_audio:
            self._bar.update(seconds)

    def add_file(self) -> None:
        """Count one file."""
        self._num_done += 1
        if self._is_of_audio:
            self._bar.set_description(self._title())
        else:
            self._bar.update()

    def print(self, text: str) -> None:
        """Write to stdout."""
        self.write(text, sys.stdout)

    @staticmethod
    def write(text: str, stream: TextIO) -> None:
        """Write without garbling a bar that may be on the screen."""
        tqdm.write(text, file=stream, end="")
        stream.flush()

    def _title(self) -> str:
        if len(self._names) > 1:
            return f"{self._num_done}/{len(self._names)} files"
        (name,) = self._names
        title = "stdin" if name == "-" else Path(name).name
        length = self._lengths[name]
        is_in_bar = self._is_of_audio or not length
        return title if is_in_bar else f"{title} ({tqdm.format_interval(length)} of audio)"


class FileProgress:
    """How far one file is."""

    def __init__(self, progress: Progress, length: float, is_streamed: bool) -> None:
        self._progress = progress
        self._length = length
        self._reached = 0.0
        self.is_streamed = is_streamed
        """Whether it is to be asked for as a stream."""

    def reached(self, seconds: float) -> None:
        """Say up to where on its own clock the audio is done."""
        # A segment may end a little after the length that the file's header tells.
        seconds = min(seconds, self._length)
        self._progress.add_audio(seconds - self._reached)
        self._reached = seconds

    def done(self) -> None:
        """Say that nothing more will come, be it that all is done or that it failed."""
        self.reached(self._length)
        self._progress.add_file()


class _AudioBar(tqdm):  # type: ignore[misc]
    """A bar in seconds of audio, shown as times."""

    def __init__(self, *, total: float, desc: str, leave: bool) -> None:
        super().__init__(
            total=total,
            desc=desc,
            leave=leave,
            bar_format="{l_bar}{bar}| {audio_done}/{audio} [{elapsed}<{remaining}]",
            # Segments are done in bursts: what is left is told from the speed so far.
            smoothing=0,
        )

    @property
    def format_dict(self) -> dict[str, Any]:
        figures: dict[str, Any] = super().format_dict
        done, total = (self.format_interval(figures[name]) for name in ("n", "total"))
        return {**figures, "audio_done": done, "audio": total}


def _length(name: str) -> float:
    """Return the seconds of audio in a file, 0 where they are not known."""
    if not Path(name).is_file():  # stdin or a pipe, which must not be read here
        return 0.0
    try:
        return float(soundfile.info(name).duration)
    except (OSError, RuntimeError):  # not audio: the server will say so
        return 0.0
