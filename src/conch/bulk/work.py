"""Units of work: what one call of a worker does, and how its results become a shard.

A shard of short recordings is one unit. A long one in it adds a unit for each of its pieces. Then
each unit writes its result into the folder of work, and whoever finds all results there writes the
shard. A unit that is done again, because a worker died, finds what is done and does the rest.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from conch.bulk.cut import Cut, Piece, joined
from conch.bulk.inputs import Source
from conch.bulk.output import DONE, FILES, WORK, Output
from conch.bulk.rows import Row, error_row, json_line, row_of
from conch.bulk.shards import rows_of, shard_bytes
from conch.component.waveform import SAMPLE_RATE
from conch.wire.errors import ConchError, TranscriptionError, from_wire, to_wire
from conch.wire.formats import FORMATS
from conch.wire.result import Transcript

BESIDE: Mapping[str, str] = {"txt": "text"} | {name: name for name in FORMATS if name != "text"}
"""Formats of the files beside the shards, by --format, which is their suffix too."""


@dataclass(frozen=True, slots=True)
class Job:
    """What is the same for all units of a run. It travels to the workers."""

    out: str
    """Address of the output folder."""
    run: str
    """Id of the lock."""
    kind: str = "jsonl"
    """Of shards."""
    formats: tuple[str, ...] = ()
    """Of files beside."""
    options: Mapping[str, Any] = field(default_factory=dict)
    urls: tuple[str, ...] = ()
    """Servers that exist; without one each node has its own."""
    command: tuple[str, ...] = ()
    """The program that starts the server of a node."""
    whisper: str = ""
    """Name or folder of the Whisper of such a server; empty for its default."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    jobs: int = 4
    """Requests in flight of one worker."""
    timeout_s: float = 3600.0
    """Seconds for one recording or piece."""
    patience_s: float = 300.0
    """Seconds to wait for a server that is gone."""
    piece_s: float = 0.0
    """Wanted length of a piece; 0 cuts nothing but what no server takes."""


@dataclass(frozen=True, slots=True)
class Unit:
    """The work of one call."""

    shard: str
    sources: tuple[Source, ...]
    """All recordings of the shard."""
    long: tuple[int, ...] = ()
    """Places in `sources` of those that are cut."""
    place: int = -1
    """Place of the recording whose piece this is; -1 for all that are not cut."""
    piece: int = 0
    vad_state: str = ""

    def to_json(self) -> str:
        """Return the unit as text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Unit":
        """Return the unit that `to_json` wrote."""
        data = json.loads(text)
        sources = tuple(Source(**item) for item in data["sources"])
        return cls(**{**data, "sources": sources, "long": tuple(data["long"])})

    @property
    def key(self) -> str:
        """Name of its result in the folder of the shard's work."""
        return "short" if self.place < 0 else f"{self.place:04d}-{self.piece:05d}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the driver is told about a shard."""

    shard: str
    files: int = 0
    audio_s: float = 0.0
    errors: tuple[tuple[str, str], ...] = ()
    """Name and reason of each recording without a transcript."""
    warnings: tuple[tuple[str, str], ...] = ()
    is_shard: bool = False
    """Whether the shard was written; otherwise a part of it was."""

    def to_json(self) -> str:
        """Return the outcome as text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Outcome":
        """Return the outcome that `to_json` wrote."""
        data = json.loads(text)
        pairs = {name: tuple(map(tuple, data[name])) for name in ("errors", "warnings")}
        return cls(**{**data, **pairs})


@dataclass(frozen=True, slots=True)
class Heard:
    """The answer to one request: a transcript, or why there is none."""

    transcript: Transcript | None
    error: ConchError | None
    seconds: float
    models: Mapping[str, str] = field(default_factory=dict)


def work_folder(shard: str) -> str:
    """Return the folder of a shard's unfinished work."""
    return f"{WORK}/{shard}"


def row_for(job: Job, source: Source, heard: Heard, pieces: int) -> Row:
    """Return the row of a recording."""
    if heard.transcript is None:
        assert heard.error is not None
        return error_row(source, heard.error, job.options)
    return row_of(
        source,
        heard.transcript,
        options=job.options,
        models=heard.models,
        pieces=pieces,
        seconds=heard.seconds,
    )


def beside_bytes(format: str, transcript: Transcript, name: str) -> bytes:
    """Return the file of a recording beside the shards, in one of the formats of BESIDE."""
    return FORMATS[BESIDE[format]](transcript, name).encode(errors="surrogateescape")


def beside_name(source: Source, format: str) -> str:
    """Return where the file beside a shard lies: under the recording's whole name.

    Two recordings never share one.
    """
    plain = source.id.replace("://", "/").lstrip("/")
    parts = [part if part.strip(".") else "_" for part in plain.split("/")]
    return f"{FILES}/{format}/{'/'.join(parts)}.{format}"


def write_beside(job: Job, output: Output, source: Source, transcript: Transcript) -> None:
    """Write the files beside the shards.

    Raises:
        BulkError: one cannot be written.
    """
    for format in job.formats:
        output.write(beside_name(source, format), beside_bytes(format, transcript, source.id))


def write_shard(job: Job, output: Output, unit: Unit, rows: Sequence[Row]) -> Outcome:
    """Write a shard whole, and return what to tell of it.

    Raises:
        BulkError: it cannot be written.
    """
    outcome = outcome_of(unit.shard, rows)
    content = shard_bytes(job.kind, rows)
    output.write(f"{DONE}/{unit.shard}.json", outcome.to_json().encode())
    # Last: from here on it is done.
    output.write(f"{unit.shard}.{job.kind}", content)
    return outcome


def outcome_there(output: Output, shard: str, kind: str) -> Outcome:
    """Return what to tell of a shard that was written before.

    Raises:
        BulkError: it is damaged, or of another version.
    """
    try:
        return Outcome.from_json(output.read(f"{DONE}/{shard}.json").decode())
    except FileNotFoundError:
        name = f"{shard}.{kind}"
        return outcome_of(shard, rows_of(output.path(name), output.read(name)))


def outcome_of(shard: str, rows: Sequence[Row]) -> Outcome:
    """Return what the driver is told about the rows of a shard."""
    return Outcome(
        shard,
        files=len(rows),
        audio_s=sum(row["duration"] or 0.0 for row in rows),
        errors=tuple((row["path"], row["error"]) for row in rows if row["error"] is not None),
        warnings=tuple((row["path"], text) for row in rows for text in row["warnings"]),
        is_shard=True,
    )


def cut_bytes(cut: Cut) -> bytes:
    """Return a cut as a file of the folder of work."""
    return json.dumps(asdict(cut)).encode()


def cut_from(content: bytes) -> Cut:
    """Return the cut that `cut_bytes` wrote."""
    data = json.loads(content)
    return Cut(
        tuple(Piece(**item) for item in data["pieces"]),
        data["duration"],
        tuple(data["channels"]),
        tuple(data["warnings"]),
    )


def heard_bytes(heard: Heard) -> bytes:
    """Return an answer as a file of the folder of work."""
    error = heard.error
    told = to_wire(error) if isinstance(error, TranscriptionError) else str(error or "")
    return json.dumps(
        {
            "transcript": heard.transcript and heard.transcript.to_json(),
            "error": told,
            "seconds": heard.seconds,
            "models": dict(heard.models),
        }
    ).encode()


def heard_from(content: bytes) -> Heard:
    """Return the answer that `heard_bytes` wrote."""
    data = json.loads(content)
    found = data["transcript"] and Transcript.from_json(data["transcript"])
    error = None
    if found is None:
        error = from_wire(data["error"]) or ConchError(data["error"])
    return Heard(found or None, error, data["seconds"], data["models"])


def joined_pieces(cut: Cut, parts: Sequence[Heard], nbest: int) -> Heard:
    """Return the answer for a recording from those for its pieces: one that failed fails all."""
    seconds = sum(part.seconds for part in parts)
    for piece, part in zip(cut.pieces, parts, strict=True):
        if part.error is not None:
            where = f"from {piece.start / SAMPLE_RATE:.1f} s on"
            return Heard(None, type(part.error)(f"{where}: {part.error}"), seconds)
    models: dict[str, str] = {}
    for part in parts:
        models.update(part.models)
    transcripts = [part.transcript for part in parts if part.transcript is not None]
    return Heard(joined(cut, transcripts, nbest), None, seconds, models)


def finish(job: Job, output: Output, unit: Unit, nbest: int) -> Outcome:
    """Write the shard of a unit if all of its parts are there, and remove the parts.

    Args:
        job: The run.
        output: Its output.
        unit: A unit of the shard, whose own part is written.
        nbest: The option of the requests.

    Returns:
        What to tell: of the shard if it was written, else an empty outcome.

    Raises:
        BulkError: a file cannot be read or written.
    """
    folder = work_folder(unit.shard)
    there = set(output.names(folder))
    try:
        cuts = {}
        for place in unit.long:
            if f"{place:04d}.json" not in there:
                return Outcome(unit.shard)
            cuts[place] = cut_from(output.read(f"{folder}/{place:04d}.json"))
        keys = [
            f"{place:04d}-{number:05d}"
            for place, cut in cuts.items()
            for number in range(len(cut.pieces))
        ]
        if not {f"{key}.json" for key in ("short", *keys)} <= there:
            return Outcome(unit.shard)
        rows = _joined_rows(job, output, unit, cuts, nbest)
    except FileNotFoundError:
        # Another worker has joined them meanwhile.
        return Outcome(unit.shard)
    outcome = write_shard(job, output, unit, rows)
    output.remove(folder)
    return outcome


def _joined_rows(
    job: Job, output: Output, unit: Unit, cuts: Mapping[int, Cut], nbest: int
) -> list[Row]:
    folder = work_folder(unit.shard)
    short = iter([json.loads(line) for line in output.read(f"{folder}/short.json").splitlines()])
    rows = []
    for place, source in enumerate(unit.sources):
        if place not in cuts:
            rows.append(next(short))
            continue
        cut = cuts[place]
        parts = [
            heard_from(output.read(f"{folder}/{place:04d}-{number:05d}.json"))
            for number in range(len(cut.pieces))
        ]
        heard = joined_pieces(cut, parts, nbest)
        if heard.transcript is not None:
            write_beside(job, output, source, heard.transcript)
        rows.append(row_for(job, source, heard, len(cut.pieces)))
    return rows


def rows_bytes(rows: Sequence[Row]) -> bytes:
    """Return rows as a file of the folder of work."""
    return b"".join(map(json_line, rows))
