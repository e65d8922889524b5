"""The table of docs/guide/cluster.md: how many servers, from what one of them carries.

python -m lab.capacity.cluster_tables            # writes it into the document
"""

import math
import re
from dataclasses import dataclass
from pathlib import Path

from conch.scoring.tables import table
from lab.capacity.capacity import works

DOCUMENT = Path(__file__).parents[2] / "docs" / "guide" / "cluster.md"
MARKED = re.compile(r"(<!-- servers -->\n).*?(<!-- /servers -->)", flags=re.S)
STREAMS = (8, 50, 200, 1000, 10_000)
"""Live streams at once, of the examples."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What one server carries."""

    name: str
    streams: float
    """Live streams that one server keeps up with."""
    source: str


def machines() -> tuple[Machine, ...]:
    """Return what one server carries, with the source of each figure."""
    (live,) = [work for work in works() if work.name.startswith("live")]
    of_a_gpu = live.servers()
    benchmarks = "[measured](../notes/benchmarks.md#live-streams)"
    return (
        Machine("two cores, `two_pass` with every pass", 8, benchmarks),
        Machine("two cores, `streaming`", 66, benchmarks),
        Machine(
            f"one of {of_a_gpu} on a GPU with 13 cores, `streaming`",
            live.rate(of_a_gpu) * live.audio_s / of_a_gpu,
            "[computed](../notes/scaling.md)",
        ),
    )


def servers_for(streams: int, of_one: float) -> int:
    """Return how many servers carry `streams` while one of them is drained or lost."""
    return math.ceil(streams / math.floor(of_one)) + 1


def servers_table() -> str:
    """Return the servers for some numbers of streams, a row for each machine."""
    rows = [
        [
            machine.name,
            f"{math.floor(machine.streams)}",
            *(str(servers_for(streams, machine.streams)) for streams in STREAMS),
            machine.source,
        ]
        for machine in machines()
    ]
    header = ["a server", "streams of one", *(f"{streams:,}" for streams in STREAMS), "source"]
    return table(header, rows)


def with_table(text: str) -> str:
    """Return the document with its table as it is now."""
    return MARKED.sub(lambda marks: f"{marks[1]}{servers_table()}\n{marks[2]}", text)


if __name__ == "__main__":
    DOCUMENT.write_text(with_table(DOCUMENT.read_text()))
