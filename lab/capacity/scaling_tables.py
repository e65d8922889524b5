"""The tables of docs/notes/scaling.md, from the arithmetic of `capacity.py`.

python -m lab.capacity.scaling_tables            # writes them into the document
"""

import math
import re
from pathlib import Path

from conch.component.waveform import SAMPLE_RATE
from conch.scoring.tables import number, table
from lab.capacity.capacity import ENCODERS, FRAMES_PER_S, INPUTS, WINDOW_S, Encoder, value, works

DOCUMENT = Path(__file__).parents[2] / "docs" / "notes" / "scaling.md"
MARKED = re.compile(r"(<!-- (\w+) -->\n).*?(<!-- /\2 -->)", flags=re.S)
WAVEFORM_BITS_PER_S = SAMPLE_RATE * 32
FILE_BITS_PER_S = 32_000
STREAMS, ARCHIVE_H = 10_000, 100_000
"""Of the examples of a cluster: live ones, and hours of recordings."""


def inputs_table() -> str:
    """Return a row per input."""
    rows = [[name, f"{item.value:g}", item.unit, item.source] for name, item in INPUTS.items()]
    return _left(table(["input", "value", "of", "source"], rows))


def stages_table() -> str:
    """Return a row per process of each kind of work."""
    rows = []
    for work in works():
        servers = work.servers()
        rate = work.rate(servers) / servers
        for item in work.stages:
            has_limit = not math.isinf(item.instances)
            rows.append(
                [
                    work.name,
                    item.process,
                    number(item.cpu_ms),
                    number(item.host_ms(rate)),
                    f"{item.instances:g}" if has_limit else "threads",
                    number(item.limit, 0) if has_limit else "",
                ]
            )
    header = ["work", "process", "CPU ms", "beside a GPU", "instances", "limit per s"]
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


def sizes_table() -> str:
    """Return what follows for networks and clusters."""
    rows = []
    for work in works():
        speed = work.rate(work.servers()) * work.audio_s
        is_live = work.audio_s == value("chunk")  # chunks are waveforms, never files
        rows.append(
            [
                work.name,
                number(speed * WAVEFORM_BITS_PER_S / 1e9, 2),
                "" if is_live else number(speed * FILE_BITS_PER_S / 1e9, 2),
                str(math.ceil(STREAMS / speed)) if is_live else "",
                "" if is_live else number(ARCHIVE_H / speed, 0),
            ]
        )
    header = ["of a GPU", "Gbit/s of FP32 waveforms", "Gbit/s of files at 32 kbit/s"]
    header += [f"GPUs for {STREAMS:,} streams", f"hours for an archive of {ARCHIVE_H:,}"]
    return table(header, rows)


def encoders_table() -> str:
    """Return operations of Whisper's encoders, and what they allow."""
    attention = works()[0]
    of_cores = attention.rate_of_cores(attention.servers())
    rows = [
        [
            item.name,
            str(item.size),
            str(item.layers),
            number(item.frame_flop(round(WINDOW_S * FRAMES_PER_S)) / 1e6),
            number(item.window_flop(WINDOW_S) / 1e9, 0),
            number(_windows_per_s(item), 0),
            number(_windows_per_s(item) * value("request"), 0),
            "the GPU" if _windows_per_s(item) < of_cores else "the cores",
        ]
        for item in ENCODERS
    ]
    header = ["encoder", "size", "layers", "MFLOP a frame", "GFLOP a window of 15 s"]
    return table([*header, "windows a second", "RTFx", "limit"], rows)


def _windows_per_s(encoder: Encoder) -> float:
    return value("use") * value("peak") * 1e12 / encoder.window_flop(WINDOW_S)


def _left(text: str) -> str:
    """Return a table whose columns are all aligned to the left."""
    return text.replace("---:", "---")


TABLES = {
    "inputs": inputs_table,
    "stages": stages_table,
    "capacity": capacity_table,
    "sizes": sizes_table,
    "encoders": encoders_table,
}


def with_tables(text: str) -> str:
    """Return the document with its tables as they are now."""
    return MARKED.sub(lambda marks: f"{marks[1]}{TABLES[marks[2]]()}\n{marks[3]}", text)


if __name__ == "__main__":
    DOCUMENT.write_text(with_tables(DOCUMENT.read_text()))
