"""The tables of docs/notes/scaling.md, from the arithmetic of `capacity.py`.

python -m lab.capacity.scaling_tables            # writes them into the document
"""

import math
import re
from pathlib import Path

from conch.scoring.tables import number, table
from lab.capacity.capacity import ENCODERS, WINDOW_S, Encoder, value, works

DOCUMENT = Path(__file__).parents[2] / "docs" / "notes" / "scaling.md"
MARKED = re.compile(r"(<!-- (\w+) -->\n).*?(<!-- /\2 -->)", flags=re.S)


def stages_table() -> str:
    """Return a row per process of each kind of work."""
    rows = []
    for work in works():
        servers = work.servers()
        rate = work.rate(servers) / servers
        for place, item in enumerate(work.stages):
            has_limit = not math.isinf(item.instances)
            rows.append(
                [
                    "" if place else work.name,
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
    """Return the RTFx that a GPU's arithmetic allows for each of Whisper's encoders."""
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


TABLES = {
    "stages": stages_table,
    "capacity": capacity_table,
    "encoders": encoders_table,
}


def with_tables(text: str) -> str:
    """Return the document with its tables as they are now."""
    return MARKED.sub(lambda marks: f"{marks[1]}{TABLES[marks[2]]()}\n{marks[3]}", text)


if __name__ == "__main__":
    DOCUMENT.write_text(with_tables(DOCUMENT.read_text()))
