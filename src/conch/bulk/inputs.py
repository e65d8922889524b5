"""The audio of a bulk run: folders, globs, manifests, tables and single files."""

import base64
import binascii
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from conch.bulk.storage import address_of, file_system, full_address, storage_errors
from conch.scoring.manifest import manifest_rows
from conch.wire.errors import AudioError, BulkError

_SUFFIXES = """
aac ac3 adts aif aifc aiff amr ape asf au avi awb bwf caf dts eac3 ec3 f4a f4v flac flv gsm m2a m2ts
m4a m4b m4r m4v mka mkv mov mp1 mp2 mp3 mp4 mpa mpc mpeg mpg mpga mts mxf nist oga ogg ogm ogv ogx
opus qcp qt qta ra rf64 rm rmvb shn snd sph spx tak ts tta vob voc w64 wav wave weba webm wma wmv wv
3g2 3ga 3gp 3gpp
"""
SUFFIXES = frozenset(_SUFFIXES.split())
"""Suffixes of audio files in a folder. A file that is named itself may have any."""
MOST_SHOWN = 8
"""Most suffixes in a message about files that were left out."""


@dataclass(frozen=True, slots=True)
class Source:
    """One recording: where it is, and the name of its result."""

    id: str
    """Unique among the recordings, and the same in every run with the same inputs."""
    path: str
    """Local path or address of the file, or of the table that holds its bytes."""
    row: int = -1
    """Row of a Parquet file, or first byte of a line of JSON, with the bytes; -1 for a file."""
    columns: Mapping[str, str] = field(default_factory=dict, compare=False)


def sources_of(
    names: Sequence[str], *, keeps_columns: bool = False, left_out: Counter[str] | None = None
) -> list[Source]:
    """Return the recordings of all inputs, in order and each once.

    Inputs are folders, globs, manifests (.tsv), tables (.parquet, .jsonl) and files: local paths,
    or addresses that fsspec reads. `left_out` gets the suffixes of files that are no audio.
    """
    by_id: dict[str, Source] = {}
    others = Counter[str]() if left_out is None else left_out
    for name in names:
        is_empty = True
        for source in _sources(name, others):
            is_empty = False
            known = by_id.setdefault(source.id, source)
            if known != source:
                raise BulkError(
                    f"{name}: the id {source.id!r} is that of two recordings, "
                    f"{_where(known)} and {_where(source)}"
                )
            if source.columns:
                by_id[source.id] = source if keeps_columns else replace(source, columns={})
        if is_empty:
            more = f"; {left_out_text(others)}" if others else ""
            raise BulkError(f"{name}: no audio in it{more}")
    return list(by_id.values())


def left_out_text(left_out: Counter[str]) -> str:
    counts = ", ".join(f"{number} {suffix}" for suffix, number in left_out.most_common(MOST_SHOWN))
    more = ", …" if len(left_out) > MOST_SHOWN else ""
    return f"{left_out.total()} files of folders are left out, as no audio by name: {counts}{more}"


def read_audio(source: Source) -> bytes:
    """Return the bytes of a recording; raise an AudioError if it cannot be read, or is empty."""
    try:
        with storage_errors("cannot be read", AudioError):
            data = _read(source)
    except BulkError as error:
        raise AudioError(str(error)) from None
    if not data:
        raise AudioError("the audio is empty: 0 bytes")
    return data


def size_of(source: Source) -> int | None:
    """Return the bytes of a recording in a file of its own; None if they are not known."""
    if source.row >= 0:
        return None
    try:
        system, path = file_system(source.path)
        return int(system.size(path))
    except Exception:  # reading the file will raise it again
        return None


def _where(source: Source) -> str:
    return source.path if source.row < 0 else f"row {source.row} of {source.path}"


def _sources(name: str, left_out: Counter[str]) -> Iterator[Source]:
    system, path = file_system(address_of(name))
    with storage_errors(f"cannot read {name}"):
        try:
            matches = {path: system.info(path)}
        except FileNotFoundError:
            if not any(char in name for char in "*?["):
                # Without the right to look into a bucket, this says so; else the file is missing.
                system.ls(path.rpartition("/")[0] or "/", detail=False)
                raise
            # As in a shell, no hidden files.
            matches = {
                item: about
                for item, about in sorted(system.glob(path, detail=True).items())
                if not item.rpartition("/")[2].startswith(".")
            }
    for item, about in matches.items():
        address = address_of(name) if item == path else full_address(name, item)
        if about["type"] == "directory":
            yield from _in_folder(address, system, item, left_out)
        else:
            yield from _in_file(address, system, item)


def _in_folder(address: str, system: Any, path: str, left_out: Counter[str]) -> Iterator[Source]:
    with storage_errors(f"cannot read {address}"):
        paths = sorted(map(str, system.find(path)))
    for item in paths:
        leaf = item.rpartition("/")[2]
        if leaf.startswith("."):
            continue
        _, dot, suffix = leaf.lower().rpartition(".")
        if dot and suffix in SUFFIXES:
            full = full_address(address, item)
            yield Source(full, full)
        else:
            left_out.update([f".{suffix}" if dot else "without a suffix"])


def _in_file(address: str, system: Any, path: str) -> Iterator[Source]:
    if path.endswith(".tsv"):
        with storage_errors(f"cannot read {address}"):
            text = system.cat_file(path).decode()
        for fields in manifest_rows(address, text, required=("path",)):
            full = relative_to(address, fields["path"].strip())
            yield Source(full, full, columns=fields)
    elif path.endswith((".jsonl", ".ndjson")):
        yield from _in_json(address, system, path)
    elif path.endswith(".parquet"):
        yield from _in_parquet(address, system, path)
    else:
        yield Source(address, address)


def relative_to(table: str, path: str) -> str:
    """Return the address of a path in a table; a relative one begins at the table's folder."""
    if "://" in path or path.startswith("/"):
        return path
    return f"{table.rpartition('/')[0]}/{path}"


def _in_json(address: str, system: Any, path: str) -> Iterator[Source]:
    with storage_errors(f"cannot read {address}"), system.open(path, "rb") as file:
        start = 0
        for number, line in enumerate(file, start=1):
            if line.strip():
                where = f"{address}, line {number}"
                yield _row_source(where, address, start, json_row(where, line))
            start += len(line)


def json_row(where: str, line: bytes) -> Mapping[str, Any]:
    try:
        row = json.loads(line)
    except ValueError as error:  # UnicodeDecodeError is one too
        raise BulkError(f"{where}: not JSON: {error}") from None
    if not isinstance(row, dict):
        raise BulkError(f"{where}: a row is a JSON object; found: {type(row).__name__}")
    return row


def _row_source(where: str, table: str, row: int, fields: Mapping[str, Any]) -> Source:
    """Return the recording of a row that has a path, or bytes by themselves or in `audio`."""
    nested = fields.get("audio")
    merged = {**fields, **nested} if isinstance(nested, Mapping) else fields
    given = fields.get("id")
    if given is not None and not isinstance(given, str | int):
        raise BulkError(f"{where}: id takes text; found: {type(given).__name__}")
    has_bytes = merged.get("bytes") is not None or isinstance(nested, str | bytes)
    if has_bytes:
        return Source(str(given) if given is not None else f"{table}#{row}", table, row)
    path = merged.get("path")
    if not isinstance(path, str) or not path.strip():
        raise BulkError(f"{where}: neither path nor bytes")
    path = relative_to(table, path.strip())
    return Source(path if given is None else str(given), path)


def _in_parquet(address: str, system: Any, path: str) -> Iterator[Source]:
    import pyarrow.parquet as parquet

    with storage_errors(f"cannot read {address}"), system.open(path, "rb") as file:
        table = parquet.ParquetFile(file)
        names = table.schema_arrow.names
        wanted = [name for name in ("id", "path") if name in names]
        is_binary = "bytes" in names or "audio" in names
        if not is_binary and "path" not in names:
            raise BulkError(f"{address}: no column path, bytes or audio; found: {', '.join(names)}")
        if not wanted:
            for row in range(table.metadata.num_rows):
                yield Source(f"{address}#{row}", address, row)
            return
        row = 0
        # Bytes are not read here: they may be any number of gigabytes.
        for batch in table.iter_batches(columns=wanted, batch_size=4096):
            for fields in batch.to_pylist():
                content = {"bytes": b""} if is_binary else {}
                yield _row_source(f"{address}, row {row}", address, row, {**fields, **content})
                row += 1


def _read(source: Source) -> bytes:
    system, path = file_system(source.path)
    if source.row < 0:
        return bytes(system.cat_file(path))
    if path.endswith(".parquet"):
        return _parquet_bytes(system, path, source.row)
    with system.open(path, "rb") as file:
        file.seek(source.row)
        fields = json_row(source.path, file.readline())
    nested = fields.get("audio")
    content = nested.get("bytes") if isinstance(nested, Mapping) else fields.get("bytes", nested)
    try:
        return base64.b64decode(str(content), validate=True)
    except binascii.Error as error:
        raise AudioError(f"the bytes of a row of JSON are base64: {error}") from None


def _parquet_bytes(system: Any, path: str, row: int) -> bytes:
    """Return the bytes of one row. Its row group is read: writers keep these small for audio."""
    import pyarrow.parquet as parquet

    with system.open(path, "rb") as file:
        table = parquet.ParquetFile(file)
        names = table.schema_arrow.names
        column = "bytes" if "bytes" in names else "audio"
        for group in range(table.num_row_groups):
            rows = table.metadata.row_group(group).num_rows
            if row < rows:
                cell = table.read_row_group(group, columns=[column]).column(column)[row].as_py()
                content = cell.get("bytes") if isinstance(cell, Mapping) else cell
                return bytes(content or b"")
            row -= rows
    raise AudioError("the table has become shorter")
