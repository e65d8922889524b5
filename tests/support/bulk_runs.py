"""Bulk runs in tests: what their shards hold."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

FILES = 300
BAD_FILES = 3
TIMES = ("seconds_taken", "stages", "pieces")
"""Columns that differ between two runs of the same: how long it took, and how it was cut."""


def finished(process: "subprocess.Popen[str]", code: int) -> str:
    """Wait for a command, check its exit code and return what it said."""
    said, _ = process.communicate(timeout=600)
    assert process.returncode == code, said
    return said


def shards(out: Path) -> dict[str, list[str]]:
    """Return the rows of each shard, without what differs between two runs of the same."""
    found = {}
    for path in sorted(out.glob("part-*.jsonl")):
        rows = [json.loads(line) for line in path.read_bytes().splitlines()]
        kept = [{key: row[key] for key in row if key not in TIMES} for row in rows]
        found[path.name] = [json.dumps(row) for row in kept]
    return found


def ids(found: Mapping[str, Sequence[str]]) -> list[str]:
    return sorted(json.loads(row)["id"] for rows in found.values() for row in rows)
