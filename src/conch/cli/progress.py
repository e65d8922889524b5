"""Progress on stderr, for people only: nothing is shown where stderr is not a terminal."""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

import soundfile
from tqdm import tqdm

TICK_S = 0.5


class Progress:
    """Files done of several files; for one file its length and the time that has passed.

    A file is answered as a whole, so that there is nothing in between to show.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._bar: Any = tqdm(
            total=len(names),
            unit="file",
            desc=None if len(names) > 1 else _title(names[0]),
            bar_format=None if len(names) > 1 else "{desc} {elapsed}",
            leave=False,
            disable=not sys.stderr.isatty(),
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

    def done(self) -> None:
        """Count one file."""
        self._bar.update()

    def print(self, text: str) -> None:
        """Write to stdout."""
        self.write(text, sys.stdout)

    @staticmethod
    def write(text: str, stream: TextIO) -> None:
        """Write without garbling a bar that may be on the screen."""
        tqdm.write(text, file=stream, end="")
        stream.flush()


def _title(name: str) -> str:
    path = Path(name)
    if not path.is_file():  # stdin or a pipe, which must not be read here
        return "stdin:" if name == "-" else f"{path.name}:"
    try:
        seconds = round(soundfile.info(name).duration)
    except (OSError, RuntimeError):  # not audio: the server will say so
        return f"{path.name}:"
    return f"{path.name} ({seconds // 60}:{seconds % 60:02d} of audio):"
