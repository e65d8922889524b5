"""A progress bar of files on stderr, with the first problems above it."""

import sys
import time
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tqdm import tqdm

SHOWN = 20
"""Most problems of one kind that are shown."""


class FileBar:
    """The bar of a run inside a `with` block; after Ctrl-C it says how to continue."""

    def __init__(self, title: str, all_in: str) -> None:
        """`all_in` is where all problems are listed."""
        self._title, self._all_in = title, all_in
        self._bar: tqdm[None] | None = None
        self._problems: Counter[str] = Counter()
        self._started = time.monotonic()
        self.left_out = Counter[str]()  # see `sources_of`
        self.audio_s = 0.0

    def __enter__(self) -> "FileBar":
        return self

    def __exit__(self, kind: type[BaseException] | None, *exc_info: object) -> None:
        if self._bar is not None:
            self._bar.close()
        if self.left_out:
            from conch.bulk.inputs import left_out_text

            print(f"conch: {left_out_text(self.left_out)}", file=sys.stderr)
        if kind is KeyboardInterrupt:
            print("conch: stopped; run the same command again to continue", file=sys.stderr)

    def begin(self, files: int, before: int) -> None:
        """Show the bar of `files`, of which `before` were done by an earlier run."""
        if before:
            print(f"conch: {before} of {files} files were done before", file=sys.stderr)
        # Imported here, so that `conch --help` does not wait for it.
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
        """Count files that are done, and show the figures behind the bar."""
        assert self._bar is not None
        self.audio_s += audio_s
        self._bar.update(files)
        self._bar.set_postfix_str(self.figures())

    def figures(self) -> str:
        """Return how much is done, and how many files failed."""
        return f"{self.audio_s / 3600:.2f} h, {self._rate()}{self._problems['errors']} failed"

    def _rate(self) -> str:
        speed = self.audio_s / max(time.monotonic() - self._started, 1e-9)
        return f"{speed:.1f}x real time, "

    def problems(self, kind: str, texts: Iterable[str]) -> None:
        """Write the first problems of a kind, `errors` or `warnings`, above the bar."""
        for text in texts:
            self._problems[kind] += 1
            if self._problems[kind] <= SHOWN:
                self.line(text)
            elif self._problems[kind] == SHOWN + 1:
                self.line(f"further {kind} are only in {self._all_in}")

    def line(self, text: str) -> None:
        """Write a line above the bar."""
        from tqdm import tqdm

        tqdm.write(f"conch: {text}", file=sys.stderr)
