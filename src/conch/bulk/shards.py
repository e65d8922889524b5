"""Shards: which recordings share one, which are still to do, and the rows of its file."""

import hashlib
import io
import json
import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from conch import __version__
from conch.bulk.inputs import Source
from conch.bulk.sending import Answer
from conch.wire.errors import BulkError, TranscriptionError
from conch.wire.known_speakers import without_voices
from conch.wire.languages import code_of
from conch.wire.result import Segment, strict_json

if TYPE_CHECKING:
    import pyarrow

MAX_FILES = 500
"""Most recordings of a shard: a worker that dies loses only minutes of work."""
SHARD = re.compile(r"part-\d{6}-([0-9a-f]{16})\.(jsonl|parquet)")
SCHEMA = 2
"""Version of the columns and their meaning: all shards of a folder form one table."""
Row = dict[str, Any]
"""Values by column, as JSON has them. docs/guide/bulk.md has the meaning of each."""
_BY_NAME = "by name"
"""A column whose keys are not known in advance: JSON text in Parquet."""
_SEGMENT = {
    "start": "double",
    "end": "double",
    "channel": "int32",
    "text": "string",
    "unrecognised": [{"start": "double", "end": "double", "heard": "string"}],
    "language": "string",
    "language_probability": "double",
    "translated_from": "string",
    # The lattices of a shard may have more bytes than 32 bits count.
    "lattice": "large_string",
}
_WORD = {
    "text": "string",
    "start": "double",
    "end": "double",
    "confidence": "double",
    "channel": "int32",
}
_COLUMNS: Mapping[str, Any] = {
    "schema": "int32",
    "id": "string",
    "path": "string",
    "language": "string",
    "language_probability": "double",
    "translated_from": "string",
    "options": _BY_NAME,
    "conch": "string",
    "text": "string",
    "duration": "double",
    "segments": [_SEGMENT],
    "words": [_WORD],
    "nbest": [{"text": "string", "score": "double"}],
    "warnings": ["string"],
    "error": "string",
    "error_code": "string",
    "models": _BY_NAME,
    "pieces": "int32",
    "seconds_taken": "double",
    "stages": _BY_NAME,
}
"""Arrow's type of each column; a mapping is a struct, and a list is one."""


@dataclass(frozen=True, slots=True)
class Shard:
    name: str
    sources: tuple[Source, ...]


def files_per_shard(num_sources: int) -> int:
    """Return the square root: every shard has a cost, and few shards spread badly over workers."""
    return max(1, min(MAX_FILES, math.isqrt(num_sources)))


def shards_of(sources: Sequence[Source], size: int | None = None) -> list[Shard]:
    """Return the shards of a run, the same from the same recordings; None chooses their size."""
    step = size or files_per_shard(len(sources))
    parts = [tuple(sources[start : start + step]) for start in range(0, len(sources), step)]
    return [
        Shard(f"part-{number:06d}-{digest_of([item.id for item in part])}", part)
        for number, part in enumerate(parts)
    ]


def digest_of(ids: Sequence[str]) -> str:
    digest = hashlib.sha256()
    for item in ids:
        data = item.encode(errors="surrogateescape")
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.hexdigest()[:16]


def not_planned(shards: Sequence[Shard], files: Collection[str]) -> list[str]:
    """Return the files of shards, among `files`, that a plan does not have."""
    planned = {_digest(shard.name) for shard in shards}
    return [name for name in sorted(files) if _digest(name) not in planned]


def without_done(shards: Sequence[Shard], files: Collection[str]) -> list[Shard]:
    """Return the shards of a plan whose files are not among `files`."""
    done = {_digest(name) for name in files}
    return [shard for shard in shards if _digest(shard.name) not in done]


def check_settings(where: str, recorded: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """Raise a BulkError with the first different setting; an older version lacks newer ones."""
    for name, value in settings.items():
        before = recorded.get(name) or None
        if before != (value or None):
            texts = [
                json.dumps(item, ensure_ascii=False) if item else "none" for item in (before, value)
            ]
            raise BulkError(
                f"{where} holds the results of a run with {name} {texts[0]}; asked: {texts[1]}: "
                "use another --out, or --overwrite to do all again"
            )


def _digest(name: str) -> str:
    return name.partition(".")[0].rpartition("-")[2]


def row_of(source: Source, answer: Answer, options: Mapping[str, Any], pieces: int = 1) -> Row:
    """Return the row of a recording, sent in `pieces`: its transcript, or why there is none."""
    language = code_of(options.get("language", "auto"))
    row: Row = {
        **{name: [] if isinstance(dtype, list) else None for name, dtype in _COLUMNS.items()},
        "schema": SCHEMA,
        "id": _writable(source.id),
        "path": _writable(source.path),
        "language": None if language == "auto" else language,
        "options": without_voices(options),
        "conch": __version__,
    }
    error, transcript = answer.error, answer.transcript
    if transcript is None:
        return row | {
            "error": str(error).removeprefix(f"{source.path}: "),
            "error_code": error.code if isinstance(error, TranscriptionError) else "SERVER",
            "models": {},
            "pieces": 0,
            "seconds_taken": 0.0,
            "stages": {},
        }
    return row | {
        "language": transcript.language or row["language"],
        "language_probability": transcript.language_probability,
        "translated_from": transcript.translated_from or None,
        "text": transcript.text,
        "duration": transcript.duration,
        "segments": [_segment(segment) for segment in transcript.segments],
        "words": [
            {name: getattr(word, name) for name in _WORD if name != "channel"}
            | {"channel": segment.channel}
            for segment in transcript.segments
            for word in segment.words
        ],
        "nbest": [{"text": item.text, "score": item.score} for item in transcript.nbest],
        "warnings": list(transcript.warnings),
        "models": {name: answer.models.get(name, "") for name in transcript.path},
        "pieces": pieces,
        "seconds_taken": round(answer.seconds, 3),
        "stages": {name: round(stage.ms, 1) for name, stage in transcript.stages.items()},
    }


def _segment(segment: Segment) -> Row:
    row = {name: getattr(segment, name) for name in _SEGMENT}
    row["unrecognised"] = [
        {"start": span.start, "end": span.end, "heard": span.heard} for span in segment.unrecognised
    ]
    # A recording of hours has thousands of segments, and few runs ask for the last columns.
    optional = ("language", "language_probability", "translated_from", "lattice")
    return {
        name: value
        for name, value in row.items()
        if name not in optional or value not in ("", None)
    }


def json_line(row: Row) -> bytes:
    return strict_json(row).encode() + b"\n"


def shard_bytes(shard_format: str, rows: Sequence[Row]) -> bytes:
    lines = [json_line(row) for row in rows]
    if shard_format == "jsonl":
        return b"".join(lines)
    import pyarrow
    import pyarrow.parquet as parquet

    # The same rows that JSON lines hold, without NaN and with the same text.
    plain = [json.loads(line) for line in lines]
    for row in plain:
        for name in (name for name, dtype in _COLUMNS.items() if dtype == _BY_NAME):
            row[name] = json.dumps(row[name], ensure_ascii=False)
    schema = pyarrow.schema([(name, _arrow(dtype)) for name, dtype in _COLUMNS.items()])
    buffer = io.BytesIO()
    parquet.write_table(pyarrow.Table.from_pylist(plain, schema=schema), buffer)
    return buffer.getvalue()


def rows_of(name: str, content: bytes, columns: Sequence[str] | None = None) -> list[Row]:
    """Return the rows of a shard, with some `columns` of Parquet or all, or raise a BulkError."""
    try:
        if name.endswith(".parquet"):
            import pyarrow.parquet as parquet

            table = parquet.read_table(io.BytesIO(content), columns=columns and list(columns))
            rows: list[Row] = table.to_pylist()
        else:
            rows = [json.loads(line) for line in content.splitlines()]
        versions = {row["schema"] for row in rows}
    except (ValueError, KeyError, TypeError) as error:  # pyarrow's ArrowInvalid is a ValueError
        raise BulkError(f"{name} is not a complete shard of conch bulk: {error}") from None
    if versions - {SCHEMA}:
        raise BulkError(
            f"{name} is a shard of version {', '.join(map(str, versions))}; this Conch writes "
            f"version {SCHEMA}: use another --out, or --overwrite to do all of it again"
        )
    return rows


def _arrow(dtype: Any) -> "pyarrow.DataType":
    import pyarrow

    if isinstance(dtype, list):
        return pyarrow.list_(_arrow(dtype[0]))
    if isinstance(dtype, dict):
        return pyarrow.struct([(name, _arrow(item)) for name, item in dtype.items()])
    return pyarrow.type_for_alias("string" if dtype == _BY_NAME else dtype)


def _writable(name: str) -> str:
    """Return the name of a file, which need not be UTF-8, as text that is."""
    return name.encode(errors="surrogateescape").decode(errors="replace")
