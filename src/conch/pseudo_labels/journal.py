"""Have recordings transcribed twice, and keep the texts in a file with a line for each recording.

Lines are appended whole, so a run that is killed loses only the recordings in flight. The texts are
kept, not the decision: another threshold needs no recogniser.
"""

import asyncio
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import repeat
from pathlib import Path
from typing import IO, Any, Literal

import msgspec

from conch.bulk.inputs import Source, read_audio
from conch.bulk.sending import Sender, Sending
from conch.bulk.shards import check_settings
from conch.bulk.storage import storage_errors
from conch.client.aio import all_of
from conch.pseudo_labels.compare import Side, TextPair, by_segment, whole
from conch.whole import flocked
from conch.wire.errors import BulkError, OptionError
from conch.wire.result import Transcript

SCHEMA = 1
"""Version of the lines; a change of their meaning makes another one."""
SUFFIX = ".journal"


@dataclass(frozen=True, slots=True)
class Entry:
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
        status = os.stat(source.path)
    except OSError:
        return 0, 0
    return status.st_size, status.st_mtime_ns


class Journal:
    """The entries of one output, and the file that they are appended to; see `opened`."""

    def __init__(self, path: Path, file: IO[bytes]) -> None:
        self.path = path
        self._file = file
        self._entries: dict[str, Entry] = {}

    def valid_entry(self, source: Source) -> Entry | None:
        """Return the entry of a recording; None if there is none, it failed, or has changed."""
        entry = self._entries.get(source.path)
        if entry is None or entry.error or entry.stamp != stamp_of(source):
            return None
        return entry

    def entry(self, source: Source) -> Entry:
        return self._entries[source.path]

    def append(self, entry: Entry) -> None:
        self._write(asdict(entry))
        self._entries[entry.path] = entry

    def read(self, settings: Mapping[str, Any]) -> None:
        """Load the entries, and cut off a line that a killed run has left unfinished."""
        settings = {"schema": SCHEMA, **settings}
        lines = self._file.read().splitlines(keepends=True)
        if lines and not lines[-1].endswith(b"\n"):
            self._file.truncate(sum(map(len, lines[:-1])))
            del lines[-1]
        if len(lines) < 2:
            # No texts yet: options that a server refused do not bind the next run.
            self._file.truncate(0)
            self._write(settings)
            return
        for number, line in enumerate(lines, start=1):
            try:
                data = json.loads(line)
                if number == 1:
                    check_settings(str(self.path), data, settings)
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
def opened(out: Path, settings: Mapping[str, Any], *, overwrite: bool = False) -> Iterator[Journal]:
    """Open and lock the journal of an output, whose entries all share the `settings`.

    `overwrite` forgets the texts of an earlier run, and removes its labels.
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
        journal.read(settings)
        yield journal


def problem_of_name(source: Source, manifest: Path) -> str:
    """Return why a manifest cannot hold the path of a recording; empty if it can."""
    name = path_in(Path(source.path), manifest)
    try:
        name.encode()
    except UnicodeEncodeError:
        return "the file's name is not UTF-8, and a manifest cannot hold it"
    if "\t" in name or name.splitlines() != [name] or name.strip() != name:
        return "the file's name has a tab, an end of line or a space at an end"
    return ""


def path_in(path: Path, manifest: Path) -> str:
    """Return a path as a manifest names it: from its own folder, if it is in there."""
    folder = manifest.absolute().parent
    return str(path.relative_to(folder) if path.is_relative_to(folder) else path)


@dataclass(frozen=True, slots=True)
class RecogniserSettings:
    side: Side
    options: Mapping[str, Any]
    """Options of its requests that differ from the server's defaults."""
    url: str


async def transcribe(
    sources: Sequence[Source],
    recognisers: tuple[RecogniserSettings, RecogniserSettings],
    by: Literal["file", "segment"],
    sending: Sending,
    journal: Journal,
    done: Callable[[Entry], None],
) -> None:
    """Have both transcribe the recordings, `sending.jobs` at once; append each to the journal."""
    urls = {item.url for item in recognisers}
    senders = {url: Sender(repeat(url).__next__, sending) for url in urls}
    # The jobs share one iterator: a free one takes the next recording.
    waiting = iter(sources)

    async def work() -> None:
        for source in waiting:
            entry = await _entry(source, recognisers, senders, journal, by)
            journal.append(entry)
            done(entry)

    try:
        await all_of(work() for _ in range(min(sending.jobs, len(sources))))
    finally:
        for sender in senders.values():
            await sender.close()


async def _entry(
    source: Source,
    recognisers: tuple[RecogniserSettings, RecogniserSettings],
    senders: Mapping[str, Sender],
    journal: Journal,
    by: Literal["file", "segment"],
) -> Entry:
    stamp = await asyncio.to_thread(stamp_of, source)
    if problem := problem_of_name(source, journal.path):
        return Entry(source.path, stamp, error=problem)
    read: list[bytes] = []

    async def audio() -> bytes:
        if not read:
            read.append(await asyncio.to_thread(read_audio, source))
        return read[0]

    transcripts: list[Transcript] = []
    for recogniser in recognisers:
        answer = await senders[recogniser.url].transcribe(audio, recogniser.options)
        if isinstance(answer.error, OptionError):
            # All recordings would fail by it.
            raise BulkError(f"--{recogniser.side}: {answer.error}")
        if answer.transcript is None:
            reason = f"{recogniser.side}: {answer.error}" if read else str(answer.error)
            return Entry(source.path, stamp, error=reason)
        transcripts.append(answer.transcript)
    a, b = transcripts
    named = [str(item.options.get("language", "auto")) for item in recognisers]
    language = source.columns.get("language", "").strip() or next(
        (item for item in named if item != "auto"), ""
    )
    pairs = [whole(a, b, language)] if by == "file" else by_segment(a, b, language)
    return Entry(source.path, stamp, tuple(pairs))
