"""One row of a shard: the result of one recording, or why there is none."""

import json
from collections.abc import Mapping
from typing import Any

from conch import __version__
from conch.bulk.inputs import Source
from conch.wire.errors import ConchError, TranscriptionError
from conch.wire.languages import code_of
from conch.wire.result import Segment, Transcript, strict_json

SCHEMA = 2
"""Version of the columns; other ones, or another meaning, make another version: all shards of a
folder are one table."""

TIMES = ("seconds_taken", "stages", "pieces")
"""Columns that differ between two runs of the same: how long it took, and how it was cut."""

Row = dict[str, Any]
"""Values by column, as JSON has them. docs/guide/bulk.md tells what each means."""


def row_of(
    source: Source,
    transcript: Transcript,
    *,
    options: Mapping[str, Any],
    models: Mapping[str, str],
    pieces: int,
    seconds: float,
) -> Row:
    """Return the row of a transcript.

    Args:
        source: The recording.
        transcript: Its transcript.
        options: Options of the request.
        models: Versions of the server's models by name; of those that were called, the row tells.
        pieces: Number of requests that the recording was cut into.
        seconds: From the first request to the last answer.
    """
    called = {name: models.get(name, "") for name in transcript.path}
    stages = {name: round(stage.ms, 1) for name, stage in transcript.stages.items()}
    head = _head(source, options)
    return {
        **head,
        "language": transcript.language or head["language"],
        "language_probability": transcript.language_probability,
        "translated_from": transcript.translated_from or None,
        "text": transcript.text,
        "duration": transcript.duration,
        "segments": [_segment(segment) for segment in transcript.segments],
        "words": [
            {
                "text": word.text,
                "start": word.start,
                "end": word.end,
                "confidence": word.confidence,
                "channel": segment.channel,
            }
            for segment in transcript.segments
            for word in segment.words
        ],
        "nbest": [{"text": item.text, "score": item.score} for item in transcript.nbest],
        "warnings": list(transcript.warnings),
        "error": None,
        "error_code": None,
        "models": called,
        "pieces": pieces,
        "seconds_taken": round(seconds, 3),
        "stages": stages,
    }


def error_row(source: Source, error: ConchError, options: Mapping[str, Any]) -> Row:
    """Return the row of a recording without a transcript."""
    code = error.code if isinstance(error, TranscriptionError) else "SERVER"
    return {
        **_head(source, options),
        "text": None,
        "duration": None,
        "segments": [],
        "words": [],
        "nbest": [],
        "warnings": [],
        "error": str(error).removeprefix(f"{source.path}: "),
        "error_code": code,
        "models": {},
        "pieces": 0,
        "seconds_taken": 0.0,
        "stages": {},
    }


def _head(source: Source, options: Mapping[str, Any]) -> Row:
    language = code_of(options.get("language", "auto"))
    return {
        "schema": SCHEMA,
        "id": _writable(source.id),
        "path": _writable(source.path),
        "language": None if language == "auto" else language,
        "language_probability": None,
        "translated_from": None,
        "options": dict(options),
        "conch": __version__,
    }


def _segment(segment: Segment) -> Row:
    told = {
        "language": segment.language,
        "language_probability": segment.language_probability,
        "translated_from": segment.translated_from,
        "lattice": segment.lattice,
    }
    return {
        "start": segment.start,
        "end": segment.end,
        "channel": segment.channel,
        "text": segment.text,
        "unrecognised": [
            {"start": span.start, "end": span.end, "heard": span.heard}
            for span in segment.unrecognised
        ],
        # A recording of hours has thousands of segments, and few runs ask for these.
        **{name: value for name, value in told.items() if value not in ("", None)},
    }


def json_line(row: Row) -> bytes:
    """Return a row as a line of strict JSON."""
    return strict_json(row).encode() + b"\n"


def row_from(line: bytes) -> Row:
    """Return the row of a line that `json_line` wrote.

    Raises:
        ValueError: it is none.
    """
    row = json.loads(line)
    if not isinstance(row, dict):
        raise ValueError("a row is a JSON object")
    return row


def _writable(name: str) -> str:
    """Return a name of a file, which need not be UTF-8, as text that is."""
    return name.encode(errors="surrogateescape").decode(errors="replace")
