"""Units of work: what one call of a worker does, and how its results become a shard.

The short recordings of a shard are one unit, and each piece of a long one is another. With long
recordings each unit writes its result into the folder of work, and the unit that finds all results
there writes the shard. A unit that is repeated, because a worker died, does only the missing work.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import msgspec

from conch.bulk.cut import CutRecording, joined
from conch.bulk.inputs import Source
from conch.bulk.sending import Answer, Sending
from conch.bulk.shards import Row, digest_of, row_of, rows_of, shard_bytes
from conch.bulk.storage import DONE, FILES, WORK, Output, UnfitNameError, without_secrets
from conch.component import SAMPLE_RATE
from conch.wire.errors import InvalidRequestError
from conch.wire.formats import FORMATS
from conch.wire.result import Transcript


@dataclass(frozen=True, slots=True)
class Job:
    """The settings that all units of a run share, sent to the workers."""

    out: str
    run: str
    shard_format: str = "jsonl"
    formats: tuple[str, ...] = ()
    """Formats of the files next to the shards: `txt`, `srt`, …"""
    options: Mapping[str, Any] = field(default_factory=dict)
    urls: tuple[str, ...] = ()
    """Running servers; without one, each node starts its own."""
    command: tuple[str, ...] = ()
    """The program that starts the server of a node."""
    weights: Mapping[str, str] = field(default_factory=dict)
    """Names or folders of the weights of such a server, by kind; empty for its default."""
    sending: Sending = field(default_factory=Sending)
    piece_s: float = 0.0
    """Wanted length of a piece; 0 cuts only recordings that no server accepts."""


@dataclass(frozen=True, slots=True)
class WorkUnit:
    shard: str
    sources: tuple[Source, ...]
    long: tuple[int, ...] = ()
    """Indices in `sources` of those that are cut."""
    index: int = -1
    """Index of the recording of this piece; -1 for all that are not cut."""
    piece: int = 0
    vad_state: str = ""

    @property
    def part(self) -> str:
        return part_of(self.shard, self.index, self.piece)


def part_of(shard: str, index: int = -1, piece: int = 0) -> str:
    """Return the name of the result of a unit in the folder of work."""
    name = "short" if index < 0 else f"{index:04d}-{piece:05d}"
    return f"{WORK}/{shard}/{name}.json"


@dataclass(frozen=True, slots=True)
class ShardOutcome:
    """A unit's report to the driver about its shard; empty unless the unit wrote it.

    It is shown, so that its texts are without the secrets of URLs.
    """

    shard: str
    files: int = 0
    audio_s: float = 0.0
    errors: tuple[tuple[str, str], ...] = ()
    """Name and reason of each recording without a transcript."""
    warnings: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, shard: str, rows: Sequence[Row]) -> "ShardOutcome":
        return cls(
            shard,
            files=len(rows),
            audio_s=sum(row["duration"] or 0.0 for row in rows),
            errors=tuple(
                (without_secrets(row["path"]), without_secrets(row["error"]))
                for row in rows
                if row["error"] is not None
            ),
            warnings=tuple(
                (without_secrets(row["path"]), text) for row in rows for text in row["warnings"]
            ),
        )


def recorded_outcome(output: Output, shard: str, shard_format: str) -> ShardOutcome:
    try:
        data = json.loads(output.read(f"{DONE}/{shard}.json"))
    except FileNotFoundError:
        name = f"{shard}.{shard_format}"
        return ShardOutcome.of(shard, rows_of(output.path(name), output.read(name)))
    return msgspec.convert(data, ShardOutcome)


def write_shard(job: Job, output: Output, shard: str, rows: Sequence[Row]) -> ShardOutcome:
    outcome = ShardOutcome.of(shard, rows)
    output.write(f"{DONE}/{shard}.json", json.dumps(asdict(outcome)).encode())
    # Last: from here on it is done.
    output.write(f"{shard}.{job.shard_format}", shard_bytes(job.shard_format, rows))
    return outcome


def write_formats(job: Job, output: Output, source: Source, answer: Answer) -> Answer:
    """Write a recording's files; return the answer, or an error if none can have its name."""
    if answer.transcript is None:
        return answer
    name = without_secrets(source.id)
    try:
        for format in job.formats:
            output.write(format_path(source, format), format_bytes(format, answer.transcript, name))
    except UnfitNameError as error:
        said = f"no file of --format can have this id: {error}"
        return Answer(None, InvalidRequestError(said), answer.seconds)
    return answer


def format_bytes(format: str, transcript: Transcript, name: str) -> bytes:
    text = FORMATS["text" if format == "txt" else format](transcript, name)
    return text.encode(errors="surrogateescape")


def format_path(source: Source, format: str) -> str:
    """Return the path of a recording's file; a digest stands for what may be secret in a URL."""
    plain = without_secrets(source.id).replace("://", "/").lstrip("/")
    if plain != source.id.replace("://", "/").lstrip("/"):
        plain += f"-{digest_of([source.id])}"
    parts = [part if part.strip(".") else "_" for part in plain.split("/")]
    return f"{FILES}/{format}/{'/'.join(parts)}.{format}"


def cut_path(unit: WorkUnit, index: int) -> str:
    return f"{WORK}/{unit.shard}/{index:04d}.json"


def read_cut(output: Output, name: str) -> CutRecording:
    return msgspec.convert(json.loads(output.read(name)), CutRecording)


def joined_answer(cut: CutRecording, parts: Sequence[Answer], nbest: int) -> Answer:
    """Return the answer for a recording from those for its pieces; one that failed fails all."""
    seconds = sum(part.seconds for part in parts)
    transcripts: list[Transcript] = []
    models: dict[str, str] = {}
    for piece, part in zip(cut.pieces, parts, strict=True):
        if part.error is not None:
            where = f"from {piece.start / SAMPLE_RATE:.1f} s on"
            return Answer(None, type(part.error)(f"{where}: {part.error}"), seconds)
        assert part.transcript is not None
        transcripts.append(part.transcript)
        models.update(part.models)
    return Answer(joined(cut, transcripts, nbest), None, seconds, models)


def finish(job: Job, output: Output, unit: WorkUnit, nbest: int) -> ShardOutcome:
    """Write the shard of a unit if all its parts exist, and remove these."""
    short = part_of(unit.shard)
    try:
        rows = []
        cuts = {index: read_cut(output, cut_path(unit, index)) for index in unit.long}
        parts = {
            index: [part_of(unit.shard, index, piece) for piece in range(len(cut.pieces))]
            for index, cut in cuts.items()
        }
        there = set(output.names(f"{WORK}/{unit.shard}"))
        needed = [short, *(part for names in parts.values() for part in names)]
        if not {part.rpartition("/")[2] for part in needed} <= there:
            return ShardOutcome(unit.shard)
        of_short = iter(output.read(short).splitlines())
        for index, source in enumerate(unit.sources):
            if index not in cuts:
                rows.append(json.loads(next(of_short)))
                continue
            answers = [Answer.from_json(output.read(part)) for part in parts[index]]
            answer = joined_answer(cuts[index], answers, nbest)
            answer = write_formats(job, output, source, answer)
            rows.append(row_of(source, answer, job.options, len(answers)))
    except FileNotFoundError:
        # A recording is not cut yet, or another worker has joined the parts meanwhile.
        return ShardOutcome(unit.shard)
    outcome = write_shard(job, output, unit.shard, rows)
    output.remove(f"{WORK}/{unit.shard}")
    return outcome
