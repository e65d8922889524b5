"""What has been heard so far: a file beside the labels, with a line for each recording.

Lines are appended whole, so a run that is killed loses what it was about to hear, and no more. The
texts are kept, not the decision: another threshold needs no recogniser.
"""

import fcntl
import json
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from conch.agree.inputs import Clip
from conch.agree.stretches import Stretch
from conch.wire.errors import AgreeError

SCHEMA = 1
"""Version of the lines; a change of their meaning makes another one."""
SUFFIX = ".journal"
SYNC_S = 5.0
"""Most seconds of work that a power failure takes."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What came of one recording."""

    path: str
    """Absolute path."""
    stamp: tuple[int, int]
    """Bytes of the file, and when it was last written, in nanoseconds."""
    stretches: tuple[Stretch, ...] = ()
    error: str = ""
    """Why there are no texts; empty if there are."""

    def to_json(self) -> str:
        """Return the entry as one line."""
        return json.dumps(asdict(self)) + "\n"

    @classmethod
    def from_json(cls, text: bytes) -> "Entry":
        """Return the entry that `to_json` wrote.

        Raises:
            ValueError, TypeError, KeyError: it did not write this.
        """
        data = json.loads(text)
        stretches = tuple(Stretch(**item) for item in data["stretches"])
        return cls(**{**data, "stamp": tuple(data["stamp"]), "stretches": stretches})


def stamp_of(path: Path) -> tuple[int, int]:
    """Return what changes with a file's content; zeros if there is no file."""
    try:
        found = path.stat()
    except OSError:
        return 0, 0
    return found.st_size, found.st_mtime_ns


class Journal:
    """The journal of one output, held by one run inside a `with` block."""

    def __init__(self, out: Path, asked: Mapping[str, Any], *, overwrite: bool = False) -> None:
        """Open nothing yet.

        Args:
            out: File of the labels; the journal lies beside it.
            asked: What all entries must be made with, in the form that JSON gives back.
            overwrite: Whether to forget what an earlier run has heard, and remove its labels.
        """
        self.path = out.with_name(out.name + SUFFIX)
        self._out, self._asked, self._overwrite = out, dict(asked), overwrite
        self._entries: dict[str, Entry] = {}
        self._file: IO[bytes] | None = None
        self._synced = time.monotonic()

    def __enter__(self) -> "Journal":
        if self._out.exists() and not self.path.exists() and not self._overwrite:
            raise AgreeError(
                f"--out {self._out} is there, and {self.path.name} is not, which tells of what run "
                "it is: use another name, or --overwrite"
            )
        with ExitStack() as opened:
            try:
                descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
                file = opened.enter_context(os.fdopen(descriptor, "r+b", buffering=0))
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise AgreeError(f"--out {self._out}: another run writes there") from None
            except OSError as error:
                raise AgreeError(f"{self.path} cannot be written: {error.strerror}") from None
            if self._overwrite:
                file.truncate(0)
                # Old labels look like those of this run if it is stopped.
                self._out.unlink(missing_ok=True)
            self._read(file)
            opened.pop_all()
        self._file = file
        return self

    def __exit__(self, *exc_info: object) -> None:
        assert self._file is not None
        os.fsync(self._file.fileno())
        self._file.close()
        self._file = None

    def found(self, clip: Clip) -> Entry | None:
        """Return the entry of a recording; None if there is none, it failed, or has changed."""
        entry = self._entries.get(clip.source.path)
        if entry is None or entry.error or entry.stamp != stamp_of(clip.path):
            return None
        return entry

    def entry(self, clip: Clip) -> Entry:
        """Return the latest entry of a recording that has one."""
        return self._entries[clip.source.path]

    def append(self, entry: Entry) -> None:
        """Add an entry.

        Raises:
            AgreeError: the disk is full, or fails.
        """
        assert self._file is not None
        self._write(self._file, entry.to_json().encode())
        self._entries[entry.path] = entry
        if time.monotonic() - self._synced > SYNC_S:
            os.fsync(self._file.fileno())
            self._synced = time.monotonic()

    def _read(self, file: IO[bytes]) -> None:
        """Take over the entries, and cut off a line that a killed run has left unfinished.

        Raises:
            AgreeError: a line is damaged, or another run was asked for other things.
        """
        lines = file.read().splitlines(keepends=True)
        if lines and not lines[-1].endswith(b"\n"):
            file.truncate(sum(map(len, lines[:-1])))
            del lines[-1]
        if len(lines) < 2:
            # Nothing has been heard: a run whose options are refused says nothing of the next one.
            file.truncate(0)
            self._write(file, (json.dumps({"schema": SCHEMA, **self._asked}) + "\n").encode())
            return
        for number, line in enumerate(lines, start=1):
            try:
                if number == 1:
                    self._check(json.loads(line))
                else:
                    entry = Entry.from_json(line)
                    self._entries[entry.path] = entry
            except (ValueError, TypeError, KeyError, AttributeError):
                raise AgreeError(
                    f"{self.path}, line {number} is damaged; --overwrite does all again"
                ) from None

    def _check(self, told: Mapping[str, Any]) -> None:
        asked = {"schema": SCHEMA, **self._asked}
        for name, value in asked.items():
            if told.get(name) != value:
                raise AgreeError(
                    f"{self.path} holds what a run with {name} {_told(told.get(name))} has heard; "
                    f"asked: {_told(value)}: use another --out, or --overwrite to do all again"
                )

    def _write(self, file: IO[bytes], line: bytes) -> None:
        try:
            # Unbuffered and in one call; a part of it is cut off at the next start.
            if file.write(line) != len(line):
                raise AgreeError(f"{self.path} cannot be written: the disk is full")
        except OSError as error:
            raise AgreeError(f"{self.path} cannot be written: {error.strerror}") from None


def _told(value: Any) -> str:
    if not isinstance(value, Mapping):
        return str(value)
    pairs: Sequence[str] = [f"{key}={json.dumps(item)}" for key, item in value.items()]
    return ",".join(pairs) or "no options"
