"""Which recordings share a shard, and which are still to do: pure functions of names."""

import hashlib
import json
import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from conch.bulk.inputs import Source
from conch.wire.errors import BulkError

MAX_FILES = 500
"""Most recordings of a shard: a worker that dies loses only minutes of work."""
SHARD = re.compile(r"part-\d{6}-([0-9a-f]{16})\.(jsonl|parquet)")
"""Name of a shard's file."""


@dataclass(frozen=True, slots=True)
class Shard:
    """The recordings whose results are written together."""

    name: str
    """Name of the file without its suffix, made from the ids of the recordings."""
    sources: tuple[Source, ...]


def files_per_shard(num_sources: int) -> int:
    """Return how many recordings a shard holds in a run of `num_sources`.

    The square root: every shard has a cost, and few shards spread badly over workers.
    """
    return max(1, min(MAX_FILES, math.isqrt(num_sources)))


def shards_of(sources: Sequence[Source], size: int | None = None) -> list[Shard]:
    """Return the shards of a run, `size` recordings in each; None chooses by their number.

    The same recordings in the same order give the same names, on any machine.
    """
    step = size or files_per_shard(len(sources))
    parts = [tuple(sources[start : start + step]) for start in range(0, len(sources), step)]
    return [
        Shard(f"part-{number:06d}-{digest_of([item.id for item in part])}", part)
        for number, part in enumerate(parts)
    ]


def digest_of(ids: Sequence[str]) -> str:
    """Return a digest of a list of ids, 16 hexadecimal digits."""
    digest = hashlib.sha256()
    for item in ids:
        data = item.encode(errors="surrogateescape")
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.hexdigest()[:16]


def not_planned(shards: Sequence[Shard], found: Collection[str]) -> list[str]:
    """Return the files of shards, among `found`, that a plan does not have."""
    planned = {_digest(shard.name) for shard in shards}
    return [name for name in sorted(found) if _digest(name) not in planned]


def without_done(shards: Sequence[Shard], found: Collection[str]) -> list[Shard]:
    """Return the shards of a plan whose files are not among `found`."""
    done = {_digest(name) for name in found}
    return [shard for shard in shards if _digest(shard.name) not in done]


def check_asked(where: str, found: Mapping[str, Any], asked: Mapping[str, Any]) -> None:
    """Raise a BulkError with the first different setting; an older version lacks newer ones."""
    for name, value in asked.items():
        before = found.get(name) or None
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
