"""A report of `python -m lab growth` as Markdown and as a picture."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from conch.bench.figures import RunFigures
from conch.bench.header import machine_line
from conch.scoring.error_rates import number, percent, table
from lab.growth.benchmark import Cost, GrowthReport, RecordingsRow, Taken
from lab.panels import panels

COST = ["CPU s / audio s", "of it not components'", "not components' %"]
MEMORY = ["`speech` MB", "all MB"]


def markdown(report: GrowthReport) -> str:
    tables = [_recordings([*report.lengths, *report.concurrency]), _streams(report)]
    errors = [f"**{message}**" for message in report.errors]
    parts = [
        f"`{report.header.command}`",
        *filter(None, tables),
        *errors,
        machine_line(report.header),
    ]
    return "\n\n".join(parts) + "\n"


def plot(report: GrowthReport, path: Path) -> None:
    parts = [item for item in _grown(report).items() if item[1]]
    with panels(path, len(parts)) as row:
        for axes, (title, costs) in zip(row, parts, strict=True):
            known = {
                grown: (cost.cpu_s_per_audio_s["total"], cost.orchestration_cpu_s_per_audio_s)
                for grown, cost in costs.items()
                if cost.cpu_s_per_audio_s
            }
            total = [cost for cost, _ in known.values()]
            orchestration = [cost for _, cost in known.values()]
            axes.plot(list(known), total, "o-", label="all processes")
            axes.plot(list(known), orchestration, "o-", label="not components'")
            axes.set(xlabel=title, xscale="log", ylim=(0, None))
            axes.set_xticks(list(known), [str(value) for value in known])
            axes.minorticks_off()
        row[0].set_ylabel("CPU seconds per second of audio")


def _grown(report: GrowthReport) -> Mapping[str, Mapping[int, Cost]]:
    return {
        "seconds of a recording, one client": {
            row.length_s: row.taken.cost for row in report.lengths
        },
        "clients, recordings of 5 s": {
            row.concurrency: row.taken.cost for row in report.concurrency
        },
        "live streams": {row.streams: row.taken.cost for row in report.streams},
    }


def _recordings(rows: Sequence[RecordingsRow]) -> str:
    header = ["clients", "seconds", "requests", "errors", "calls/request", *COST]
    cells = [
        [
            str(row.concurrency),
            str(row.length_s),
            str(row.figures.utterances),
            str(row.figures.errors),
            _calls(row.figures),
            *_cost(row.taken),
            number(row.figures.rtfx),
            number(row.figures.latency_ms.p50, 0),
            number(row.figures.latency_ms.p99, 0),
            *_memory(row.taken),
        ]
        for row in rows
    ]
    return table([*header, "RTFx", "p50 ms", "p99 ms", *MEMORY], cells) if cells else ""


def _streams(report: GrowthReport) -> str:
    header = ["streams", "keeps up", "chunks", "CPU ms/chunk", *COST, "p50 ms", "p99 ms", *MEMORY]
    rows = [
        [
            str(row.streams),
            "yes" if row.figures.keeps_up else "no",
            str(row.figures.chunks),
            number(row.figures.cpu_ms_per_chunk),
            *_cost(row.taken),
            number(row.figures.chunk_latency_ms.p50, 0),
            number(row.figures.chunk_latency_ms.p99, 0),
            *_memory(row.taken),
        ]
        for row in report.streams
    ]
    return table(header, rows) if rows else ""


def _calls(figures: RunFigures) -> str:
    return number(sum(item.calls for name, item in figures.stages.items() if name != "total"))


def _cost(taken: Taken) -> Sequence[str]:
    cost = taken.cost
    return [
        number((cost.cpu_s_per_audio_s or {}).get("total"), 4),
        number(cost.orchestration_cpu_s_per_audio_s, 5),
        percent(cost.orchestration_share),
    ]


def _memory(taken: Taken) -> Sequence[str]:
    return [number(taken.memory_by_process_mb.get("speech"), 0), number(taken.peak_memory_mb, 0)]
