"""Manifests: recordings with their reference texts, in a tab-separated file."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from conch.wire.errors import BenchError

REQUIRED = ("path", "text")

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    path: Path
    text: str
    """The reference, in any case and punctuation; empty if there is none."""
    split: str = ""
    source: str = ""
    language: str = ""
    """Code of the language spoken; empty if the manifest has none."""


def read_manifest(file: Path) -> list[ManifestEntry]:
    """Return the utterances of a manifest, one per line after a header line.

    Tabs separate the columns; quotes are text. `path` and `text` are required, and columns that
    `ManifestEntry` lacks are ignored. Paths are relative to the manifest.
    """
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise BenchError(f"manifest {file} cannot be read: {error}") from None
    return [
        ManifestEntry(
            path=file.parent / fields["path"].strip(),
            text=fields["text"].strip(),
            split=fields.get("split", ""),
            source=fields.get("source", ""),
            language=fields.get("language", "").strip(),
        )
        for fields in manifest_rows(str(file), text)
    ]


def manifest_rows(
    name: str, text: str, required: Sequence[str] = REQUIRED
) -> Iterator[dict[str, str]]:
    """Yield the fields of each line of a manifest, by the names of the columns."""
    lines = text.splitlines()
    header = lines[0].split("\t") if lines else []
    missing = [column for column in required if column not in header]
    if missing:
        raise BenchError(
            f"manifest {name} has no column {' and '.join(missing)}; its first line names the "
            f"columns, separated by tabs; found: {', '.join(header) or 'nothing'}"
        )
    for number, line in enumerate(lines[1:], start=2):
        if not line.strip():
            continue
        fields = dict(zip(header, line.split("\t"), strict=False))
        if not fields.get("path", "").strip():
            raise BenchError(f"manifest {name}, line {number}: no path")
        for column in required:
            if column not in fields:
                raise BenchError(f"manifest {name}, line {number}: the column {column} is missing")
        yield fields


def select(
    utterances: Sequence[ManifestEntry],
    *,
    split: str | None = None,
    source: str | None = None,
    limit: int | None = None,
) -> list[ManifestEntry]:
    """Return the utterances of a split and a source, at most `limit` of them; see `spread`."""
    kept = [
        utterance
        for utterance in utterances
        if split in (None, utterance.split) and source in (None, utterance.source)
    ]
    if not kept:
        if not utterances:
            raise BenchError("the manifest holds no utterances")
        splits = ", ".join(sorted({item.split for item in utterances} - {""}))
        sources = ", ".join(sorted({item.source for item in utterances} - {""}))
        raise BenchError(
            f"no utterance has split {split or 'any'} and source {source or 'any'}; "
            f"the splits are {splits or 'not named'}, the sources {sources or 'not named'}"
        )
    return spread(kept, limit)


def spread(items: Sequence[Item], limit: int | None) -> list[Item]:
    """Return the middle item of each of `limit` equal stretches; all items without a limit.

    So the same manifest always gives the same sample, and every source has its share in it.
    """
    if limit is None or limit >= len(items):
        return list(items)
    return [items[(2 * index + 1) * len(items) // (2 * limit)] for index in range(limit)]
