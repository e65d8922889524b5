"""Progress on stderr, if that is a terminal: a bar of files, or of the audio in them.

A long file is requested as a stream of segments, which show how much audio is done. The answer for
a short file comes as a whole.
"""

import asyncio
import io
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from conch.audio.intake import length_of
from conch.cli.captions import size_of

if TYPE_CHECKING:
    from tqdm import tqdm

TICK_S = 0.5
LONG_S = 30.0
"""Audio longer than this is requested as a stream; shorter audio takes a few seconds."""
STDIN = "-"
MAX_NAME_CHARS = 24
SHARE = "{desc}  {percentage:.0f}%|{bar:20}| {elapsed}<{remaining}{postfix}"
CLOCK = "{desc}  {elapsed}{postfix}"
SHOWN = 20


class Progress:
    def __init__(
        self, names: Sequence[str], stdin: bytes, *, can_stream: bool, is_text_shown: bool
    ) -> None:
        from tqdm import tqdm

        # Only if it is shown: finding the length of an mp3 means reading all of it.
        is_watched = sys.stderr.isatty() or is_text_shown
        self._lengths: Mapping[str, float | None] = {
            name: _length(name, stdin) if is_watched else 0.0 for name in names
        }
        self._names, self._can_stream = names, can_stream
        self._num_done = 0
        lengths = [self._lengths[name] for name in names]
        total = 0.0 if None in lengths else sum(filter(None, lengths))
        columns, rows = size_of(sys.stderr)
        self._bar: tqdm[None] = tqdm(
            desc=self._title,
            total=total or None,
            file=sys.stderr,
            disable=None,
            ncols=columns - 1,
            nrows=rows,
            leave=False,
            delay=1e-3,  # nothing before the server has started
            bar_format=SHARE if total and can_stream else CLOCK,
        )
        if not can_stream:
            self._bar.set_postfix_str("over http:// the text comes as a whole", refresh=False)

    def __enter__(self) -> "Progress":
        self._bar.delay = 0
        self._bar.reset()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._bar.close()

    @property
    def _title(self) -> str:
        if len(self._names) > 1:
            return f"{self._num_done} of {len(self._names)} files"
        title = "stdin" if self._names[0] == STDIN else Path(self._names[0]).name
        return title if len(title) <= MAX_NAME_CHARS else f"{title[: MAX_NAME_CHARS - 1]}…"

    async def tick(self) -> None:
        while True:
            self._bar.refresh()
            await asyncio.sleep(TICK_S)

    def file(self, name: str) -> "FileProgress":
        length = self._lengths[name]
        is_long = length is None or length > LONG_S
        return FileProgress(self, length, self._can_stream and is_long)

    def add(self, seconds: float, files: int = 0) -> None:
        self._num_done += files
        self._bar.update(seconds)
        elapsed_s = self._bar.format_dict["elapsed"]
        if self._can_stream and elapsed_s:
            self._bar.set_postfix_str(f"{self._bar.n / elapsed_s:.1f}x real time", refresh=False)
        self._bar.set_description_str(self._title)

    def write(self, text: str, stream: TextIO) -> None:
        with self._bar.external_write_mode(file=sys.stderr):
            stream.write(text)
            stream.flush()


class FileProgress:
    def __init__(self, progress: Progress, length: float | None, is_streamed: bool) -> None:
        self._progress = progress
        self._length = length
        self._reached = 0.0
        self.is_streamed = is_streamed

    @property
    def model(self) -> str:
        return "speech_stream" if self.is_streamed else "speech"

    def reached(self, seconds: float, files: int = 0) -> None:
        """Note that the audio is done up to this second of the file, and that files are done."""
        # A segment may end a little after the length in the file's header.
        seconds = seconds if self._length is None else min(seconds, self._length)
        self._progress.add(seconds - self._reached, files)
        self._reached = seconds

    def done(self) -> None:
        self.reached(self._reached if self._length is None else self._length, files=1)


def _length(name: str, stdin: bytes) -> float | None:
    if name == STDIN:
        return length_of(io.BytesIO(stdin))
    if not Path(name).is_file():  # do not read a pipe here
        return None
    with Path(name).open("rb") as file:
        return length_of(file)


class FileBar:
    """The bar of a run inside a `with` block; after Ctrl-C it says how to continue."""

    def __init__(
        self, title: str, all_in: str, left_out_text: Callable[[Counter[str]], str]
    ) -> None:
        """`all_in` is where all problems are listed; the function tells of files left out."""
        self._title, self._all_in, self._left_out_text = title, all_in, left_out_text
        self._bar: tqdm[None] | None = None
        self._problems: Counter[str] = Counter()
        self._started = time.monotonic()
        self.left_out = Counter[str]()  # see `sources_of`
        self.audio_s = 0.0

    def __enter__(self) -> "FileBar":
        return self

    def __exit__(self, error_type: type[BaseException] | None, *exc_info: object) -> None:
        if self._bar is not None:
            self._bar.close()
        if self.left_out:
            print(f"conch: {self._left_out_text(self.left_out)}", file=sys.stderr)
        if error_type is KeyboardInterrupt:
            print("conch: stopped; run the same command again to continue", file=sys.stderr)

    def begin(self, files: int, before: int) -> None:
        """Show the bar of `files`, of which `before` were done by an earlier run."""
        if before:
            print(f"conch: {before} of {files} files were done before", file=sys.stderr)
        from tqdm import tqdm

        self._started = time.monotonic()
        self._bar = tqdm(
            desc=self._title,
            total=files,
            initial=before,
            unit="file",
            file=sys.stderr,
            disable=None,
        )

    def update(self, files: int, audio_s: float) -> None:
        assert self._bar is not None
        self.audio_s += audio_s
        self._bar.update(files)
        self._bar.set_postfix_str(self.figures())

    def figures(self) -> str:
        return f"{self.audio_s / 3600:.2f} h, {self._rate()}{self._problems['errors']} failed"

    def _rate(self) -> str:
        speed = self.audio_s / max(time.monotonic() - self._started, 1e-9)
        return f"{speed:.1f}x real time, "

    def problems(self, severity: str, texts: Iterable[str]) -> None:
        for text in texts:
            self._problems[severity] += 1
            if self._problems[severity] <= SHOWN:
                self.line(text)
            elif self._problems[severity] == SHOWN + 1:
                self.line(f"further {severity} are only in {self._all_in}")

    def line(self, text: str) -> None:
        from tqdm import tqdm

        tqdm.write(f"conch: {text}", file=sys.stderr)
