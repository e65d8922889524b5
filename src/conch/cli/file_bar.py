"""A progress bar of files on stderr, with the first problems above it."""

import sys
import time
from collections import Counter

from tqdm import tqdm

SHOWN = 20
"""Most problems of one kind that are shown."""


class FileBar:
    """The bar of a run inside a `with` block; after Ctrl-C it says how to continue."""

    def __init__(self, title: str, all_in: str) -> None:
        """Show nothing yet.

        Args:
            title: Name of the command.
            all_in: Where all problems are listed.
        """
        self._title, self._all_in = title, all_in
        self._bar: tqdm[None] | None = None
        self._problems: Counter[str] = Counter()
        self._started = time.monotonic()

    def __enter__(self) -> "FileBar":
        return self

    def __exit__(self, kind: type[BaseException] | None, *exc_info: object) -> None:
        if self._bar is not None:
            self._bar.close()
        if kind is KeyboardInterrupt:
            print("conch: stopped; run the same command again to continue", file=sys.stderr)

    def begin(self, files: int, before: int) -> None:
        """Show the bar of `files`, of which `before` were done by an earlier run."""
        if before:
            print(f"conch: {before} of {files} files were done before", file=sys.stderr)
        self._started = time.monotonic()
        self._bar = tqdm(
            desc=self._title,
            total=files,
            initial=before,
            unit="file",
            file=sys.stderr,
            disable=None,
        )

    def update(self, files: int, figures: str) -> None:
        """Count files that are done, and show figures behind the bar."""
        assert self._bar is not None
        self._bar.update(files)
        self._bar.set_postfix_str(figures)

    def problem(self, kind: str, text: str) -> None:
        """Write one of the first problems of a kind, `errors` or `warnings`, above the bar."""
        self._problems[kind] += 1
        if self._problems[kind] <= SHOWN:
            self.line(text)
        elif self._problems[kind] == SHOWN + 1:
            self.line(f"further {kind} are only in {self._all_in}")

    def line(self, text: str) -> None:
        """Write a line above the bar."""
        with tqdm.external_write_mode(file=sys.stderr):
            print(f"conch: {text}", file=sys.stderr)

    @property
    def errors(self) -> int:
        """Number of errors so far."""
        return self._problems["errors"]

    @property
    def elapsed_s(self) -> float:
        """Seconds since `begin`."""
        return time.monotonic() - self._started
