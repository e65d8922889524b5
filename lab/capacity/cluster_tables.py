"""The tables of docs/guide/cluster.md: how many servers, from what one of them carries.

python -m lab.capacity.cluster_tables            # writes them into the document
"""

import math
import re
from dataclasses import dataclass
from pathlib import Path

from conch.scoring.tables import number, table
from lab.capacity.capacity import works

DOCUMENT = Path(__file__).parents[2] / "docs" / "guide" / "cluster.md"
MARKED = re.compile(r"(<!-- (\w+) -->\n).*?(<!-- /\2 -->)", flags=re.S)
STREAMS = (8, 50, 200, 1000, 10_000)
"""Live streams at once, of the examples."""
PCM16_BITS_PER_S = 16_000 * 16
RECORDINGS = 42.4
"""Audio seconds a second of two cores, with 8 clients: docs/notes/benchmarks.md, utterances."""


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


def costs_table() -> str:
    """Return what the four set-ups carry."""
    every_pass, streaming, _ = machines()
    whisper, *_, live = works()
    of_files = whisper.rate(whisper.servers()) * whisper.audio_s
    gpu, servers = live.rate(live.servers()) * live.audio_s, live.servers()
    gpus = math.ceil(STREAMS[-1] / math.floor(gpu)) + 1
    mbit = PCM16_BITS_PER_S / 1e6
    rows = [
        [
            "laptop",
            "2 cores",
            f"{every_pass.streams:g} with every pass, or {streaming.streams:g} in `streaming`",
            number(streaming.streams * mbit),
            number(RECORDINGS, 0),
            "measured",
        ],
        [
            "one GPU server",
            f"1 GPU, 13 cores, {servers} servers",
            f"{math.floor(gpu)} in `streaming`",
            number(math.floor(gpu) * mbit),
            number(of_files, 0),
            "computed",
        ],
        [
            "ten servers",
            "20 cores and a router",
            f"{9 * every_pass.streams:g} with every pass, or {9 * streaming.streams:g} in "
            "`streaming`, while one is away",
            number(9 * streaming.streams * mbit),
            number(9 * RECORDINGS, 0),
            "nine times the measured one",
        ],
        [
            "a data centre",
            f"{gpus} GPUs with 13 cores each, {gpus * servers} servers",
            f"{STREAMS[-1]:,} in `streaming`, while one GPU is away",
            number(STREAMS[-1] * mbit),
            number((gpus - 1) * of_files, 0),
            "computed",
        ],
    ]
    header = ["set-up", "machines", "live streams", "their Mbit/s of 16-bit samples"]
    header += ["or recordings, times real time", "figures"]
    return table(header, rows).replace("---:", "---")


TABLES = {"servers": servers_table, "costs": costs_table}


def with_tables(text: str) -> str:
    """Return the document with its tables as they are now."""
    return MARKED.sub(lambda marks: f"{marks[1]}{TABLES[marks[2]]()}\n{marks[3]}", text)


if __name__ == "__main__":
    DOCUMENT.write_text(with_tables(DOCUMENT.read_text()))
