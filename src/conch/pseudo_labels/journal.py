"""The texts so far: a file next to the labels, with a line for each recording.

Lines are appended whole, so a run that is killed loses only the recordings in flight. The texts are
kept, not the decision: another threshold needs no recogniser.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

import msgspec

from conch.bulk.inputs import Source
from conch.bulk.lock import flocked
from conch.bulk.plan import check_asked
from conch.bulk.storage import storage_errors
from conch.pseudo_labels.compare import TextPair
from conch.wire.errors import BulkError

SCHEMA = 1
"""Version of the lines; a change of their meaning makes another one."""
SUFFIX = ".journal"


@dataclass(frozen=True, slots=True)
class Entry:
    """The result of one recording."""

    path: str
    """Absolute path."""
    stamp: tuple[int, int]
    """Bytes of the file, and when it was last written, in nanoseconds."""
    stretches: tuple[TextPair, ...] = ()
    error: str = ""
    """Why there are no texts; empty if there are."""


def stamp_of(source: Source) -> tuple[int, int]:
    """Return a pair that changes with a file's content; zeros if there is no file."""
    try:
        found = os.stat(source.path)
    except OSError:
        return 0, 0
    return found.st_size, found.st_mtime_ns


class Journal:
    """The entries of one output, and the file that they are appended to; see `opened`."""

    def __init__(self, path: Path, file: IO[bytes]) -> None:
        self.path = path
        self._file = file
        self._entries: dict[str, Entry] = {}

    def found(self, source: Source) -> Entry | None:
        """Return the entry of a recording; None if there is none, it failed, or has changed."""
        entry = self._entries.get(source.path)
        if entry is None or entry.error or entry.stamp != stamp_of(source):
            return None
        return entry

    def entry(self, source: Source) -> Entry:
        """Return the latest entry of a recording that has one."""
        return self._entries[source.path]

    def append(self, entry: Entry) -> None:
        self._write(asdict(entry))
        self._entries[entry.path] = entry

    def read(self, asked: Mapping[str, Any]) -> None:
        """Load the entries, and cut off a line that a killed run has left unfinished."""
        asked = {"schema": SCHEMA, **asked}
        lines = self._file.read().splitlines(keepends=True)
        if lines and not lines[-1].endswith(b"\n"):
            self._file.truncate(sum(map(len, lines[:-1])))
            del lines[-1]
        if len(lines) < 2:
            # No texts yet: options that a server refused do not bind the next run.
            self._file.truncate(0)
            self._write(asked)
            return
        for number, line in enumerate(lines, start=1):
            try:
                data = json.loads(line)
                if number == 1:
                    check_asked(str(self.path), data, asked)
                    continue
                entry = msgspec.convert(data, Entry)
                self._entries[entry.path] = entry
            except (ValueError, AttributeError, msgspec.ValidationError):
                raise BulkError(
                    f"{self.path}, line {number} is damaged; --overwrite does all again"
                ) from None

    def _write(self, data: Mapping[str, Any]) -> None:
        line = json.dumps(data).encode() + b"\n"
        with storage_errors(f"{self.path} cannot be written"):
            # Unbuffered and in one call; a part of it is cut off at the next start.
            if self._file.write(line) != len(line):
                raise BulkError(f"{self.path} cannot be written: the disk is full")
            os.fsync(self._file.fileno())


@contextmanager
def opened(out: Path, asked: Mapping[str, Any], *, overwrite: bool = False) -> Iterator[Journal]:
    """Open and lock the journal of an output inside the block.

    `asked` are settings that all entries must share, in the form that JSON gives back. `overwrite`
    forgets the texts of an earlier run, and removes its labels.
    """
    path = out.with_name(out.name + SUFFIX)
    if out.exists() and not path.exists() and not overwrite:
        raise BulkError(
            f"--out {out} exists, but {path.name}, which describes its run, does not: use another "
            "name, or --overwrite"
        )
    with storage_errors(f"{path} cannot be written"):
        try:
            file = flocked(path)
        except BlockingIOError:
            raise BulkError(f"--out {out}: another run writes there") from None
    with file:
        if overwrite:
            file.truncate(0)
            # Old labels would look like those of this run if it is stopped.
            out.unlink(missing_ok=True)
        journal = Journal(path, file)
        journal.read(asked)
        yield journal
