"""Shards as bytes: JSON lines, or Parquet."""

import io
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from conch.bulk.rows import SCHEMA, Row, json_line, row_from
from conch.wire.errors import BulkError

if TYPE_CHECKING:
    import pyarrow

KINDS = ("jsonl", "parquet")
AS_JSON = ("options", "models", "stages")
"""Columns whose keys are not known: text with JSON in Parquet."""


def shard_bytes(kind: str, rows: Sequence[Row]) -> bytes:
    """Return a shard of rows.

    Args:
        kind: One of KINDS.
        rows: Its rows in order.
    """
    if kind == "jsonl":
        return b"".join(map(json_line, rows))
    import pyarrow
    import pyarrow.parquet as parquet

    # The same rows that JSON lines hold, without NaN and with the same text.
    plain = [row_from(json_line(row)) for row in rows]
    written = [
        {**row, **{name: json.dumps(row[name], ensure_ascii=False) for name in AS_JSON}}
        for row in plain
    ]
    buffer = io.BytesIO()
    parquet.write_table(pyarrow.Table.from_pylist(written, schema=_schema()), buffer)
    return buffer.getvalue()


def ids_of(name: str, content: bytes) -> list[str]:
    """Return the ids of the recordings in a shard.

    Args:
        name: Address of the shard.
        content: Its bytes.

    Raises:
        BulkError: it is damaged, or of another version.
    """
    return [str(row["id"]) for row in rows_of(name, content, ("id", "schema"))]


def rows_of(name: str, content: bytes, columns: Sequence[str] | None = None) -> list[Row]:
    """Return the rows of a shard.

    Args:
        name: Its name, whose suffix tells the kind.
        content: Its bytes.
        columns: Those to read of Parquet; None for all.

    Raises:
        BulkError: it is damaged, or of another version.
    """
    try:
        rows = _read(name, content, columns)
        versions = {row["schema"] for row in rows}
    except (ValueError, KeyError, TypeError) as error:  # pyarrow's ArrowInvalid is a ValueError
        raise BulkError(f"{name} is no whole shard of conch bulk: {error}") from None
    if versions - {SCHEMA}:
        raise BulkError(
            f"{name} is a shard of version {', '.join(map(str, versions))}; this Conch writes "
            f"version {SCHEMA}: use another --out, or --overwrite to do all of it again"
        )
    return rows


def _read(name: str, content: bytes, columns: Sequence[str] | None) -> list[Row]:
    if not name.endswith(".parquet"):
        return [row_from(line) for line in content.splitlines()]
    import pyarrow.parquet as parquet

    table = parquet.read_table(io.BytesIO(content), columns=columns and list(columns))
    rows: list[Row] = table.to_pylist()
    return rows


def _schema() -> "pyarrow.Schema":
    import pyarrow as pa

    def struct(**fields: Any) -> Any:
        return pa.struct(list(fields.items()))

    text, real, whole = pa.string(), pa.float64(), pa.int32()
    span = struct(start=real, end=real, heard=text)
    segment = struct(
        start=real,
        end=real,
        channel=whole,
        text=text,
        unrecognised=pa.list_(span),
        language=text,
        language_probability=real,
        translated_from=text,
        # The lattices of a shard may have more bytes than 32 bits count.
        lattice=pa.large_string(),
    )
    word = struct(text=text, start=real, end=real, confidence=real, channel=whole)
    return pa.schema(
        [
            ("schema", whole),
            ("id", text),
            ("path", text),
            ("language", text),
            ("language_probability", real),
            ("translated_from", text),
            ("options", text),
            ("conch", text),
            ("text", text),
            ("duration", real),
            ("segments", pa.list_(segment)),
            ("words", pa.list_(word)),
            ("nbest", pa.list_(struct(text=text, score=real))),
            ("warnings", pa.list_(text)),
            ("error", text),
            ("error_code", text),
            ("models", text),
            ("pieces", whole),
            ("seconds_taken", real),
            ("stages", text),
        ]
    )
