"""The tables of docs/notes/scaling.md and docs/guide/cluster.md, from the arithmetic of `capacity`.

python -m lab.capacity.tables            # writes them into the documents
"""

import math
import re
from dataclasses import dataclass
from pathlib import Path

from conch.scoring.error_rates import number, table
from lab.capacity.capacity import ENCODERS, WINDOW_S, Encoder, value, works

DOCS = Path(__file__).parents[2] / "docs"
DOCUMENTS = {
    DOCS / "notes" / "scaling.md": ("capacity", "stages", "encoders"),
    DOCS / "guide" / "cluster.md": ("servers",),
}
MARKED = re.compile(r"(<!-- (\w+) -->\n).*?(<!-- /\2 -->)", flags=re.S)
STREAMS = (50, 1000)


def stages_table() -> str:
    rows = []
    for work in works():
        servers = work.servers()
        rate = work.rate(servers) / servers
        for index, item in enumerate(work.stages):
            has_limit = not math.isinf(item.instances)
            rows.append(
                [
                    "" if index else work.name,
                    item.process,
                    number(item.cpu_ms),
                    number(item.host_ms(rate)),
                    number(item.limit, 0) if has_limit else "",
                ]
            )
    header = ["work", "process", "CPU ms", "next to a GPU", "limit per s"]
    return table(header, rows)


def capacity_table() -> str:
    """Return what a GPU with its cores carries, and what limits it."""
    rows = []
    for work in works():
        servers, (server_rate, slowest) = work.servers(), work.rate_of_server()
        rate, alone = work.rate(servers), work.rate_of_cores_alone()
        rows.append(
            [
                work.name,
                f"{alone * work.audio_s:.0f}",
                f"{server_rate * work.audio_s:.0f} ({slowest})",
                f"{rate * work.audio_s:.0f}",
                f"{rate / alone:.1f}",
                "the cores" if work.rate_of_gpu() > rate else "the GPU",
                str(servers),
                f"{100 * rate / work.rate_of_gpu():.1f} %",
            ]
        )
    header = ["audio seconds a second of", f"{value('cores'):g} cores alone", "one server (limit)"]
    header += ["a GPU with its cores", "times the cores alone", "limit", "servers"]
    return table([*header, "GPU busy with the encoder"], rows)


def encoders_table() -> str:
    attention = works()[0]
    of_cores = attention.rate_of_cores(attention.servers())
    rows = [
        [
            item.name,
            number(_windows_per_s(item) * value("request"), 0),
            "the GPU" if _windows_per_s(item) < of_cores else "the cores",
        ]
        for item in ENCODERS
    ]
    return table(["encoder", "RTFx of the GPU", "limit"], rows)


def _windows_per_s(encoder: Encoder) -> float:
    return value("use") * value("peak") * 1e12 / encoder.window_flop(WINDOW_S)


@dataclass(frozen=True, slots=True)
class Machine:
    name: str
    streams: float
    """Live streams that one server keeps up with."""
    source: str


def machines() -> tuple[Machine, ...]:
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


TABLES = {
    "stages": stages_table,
    "capacity": capacity_table,
    "encoders": encoders_table,
    "servers": servers_table,
}


def with_tables(text: str) -> str:
    return MARKED.sub(lambda marks: f"{marks[1]}{TABLES[marks[2]]()}\n{marks[3]}", text)


if __name__ == "__main__":
    for document in DOCUMENTS:
        document.write_text(with_tables(document.read_text()))
