"""`python -m lab growth`: its report as Markdown and as a picture."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from conch.bench.figures import RunFigures
from conch.bench.header import machine_line
from conch.cli.bench import LIMIT, settings_of
from conch.scoring.error_rates import number, percent
from lab.command import Command, reporting
from lab.growth.benchmark import Cost, GrowthBenchmark, GrowthReport, run
from lab.reports import Columns, page, panels, table_of

COST: Columns[Any] = (
    (
        "CPU s / audio s",
        lambda row: number((row.taken.cost.cpu_s_per_audio_s or {}).get("total"), 4),
    ),
    (
        "of it not components'",
        lambda row: number(row.taken.cost.orchestration_cpu_s_per_audio_s, 5),
    ),
    ("not components' %", lambda row: percent(row.taken.cost.orchestration_share)),
)
MEMORY: Columns[Any] = (
    ("`speech` MB", lambda row: number(row.taken.memory_by_process_mb.get("speech"), 0)),
    ("all MB", lambda row: number(row.taken.peak_memory_mb, 0)),
)
RECORDINGS: Columns[Any] = (
    ("clients", lambda row: row.concurrency),
    ("seconds", lambda row: row.length_s),
    ("requests", lambda row: row.figures.utterances),
    ("errors", lambda row: row.figures.errors),
    ("calls/request", lambda row: number(_calls(row.figures))),
    *COST,
    ("RTFx", lambda row: number(row.figures.rtfx)),
    ("p50 ms", lambda row: number(row.figures.latency_ms.p50, 0)),
    ("p99 ms", lambda row: number(row.figures.latency_ms.p99, 0)),
    *MEMORY,
)
STREAMS: Columns[Any] = (
    ("streams", lambda row: row.streams),
    ("keeps up", lambda row: "yes" if row.figures.keeps_up else "no"),
    ("chunks", lambda row: row.figures.chunks),
    ("CPU ms/chunk", lambda row: number(row.figures.cpu_ms_per_chunk)),
    *COST,
    ("p50 ms", lambda row: number(row.figures.chunk_latency_ms.p50, 0)),
    ("p99 ms", lambda row: number(row.figures.chunk_latency_ms.p99, 0)),
    *MEMORY,
)


def markdown(report: GrowthReport) -> str:
    return page(
        report.header,
        table_of([*report.lengths, *report.concurrency], RECORDINGS),
        table_of(report.streams, STREAMS),
        *(f"**{message}**" for message in report.errors),
        machine_line(report.header),
    )


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


def _calls(figures: RunFigures) -> float:
    return sum(item.calls for name, item in figures.stages.items() if name != "total")


COMMAND = Command(
    run=reporting(
        lambda args: run(settings_of(GrowthBenchmark, args)),
        markdown,
        has_failed=lambda report: bool(report.errors),
        plot=plot,
    ),
    description="Let the length of recordings, the number of clients and the number of live "
    "streams grow, one at a time, and see the cost of a second of audio: CPU by process, and "
    "memory. The command starts its servers.",
    epilog="""
examples:
  python -m lab growth --manifest speech/manifest.tsv --split dev --plot benchmark.png
  python -m lab growth --manifest calls.tsv --lengths 5,60 --concurrency 1,8 --streams 1,8
""",
    flags=LIMIT
    + """
--lengths N[,N…]=1,5,30,300,3600  seconds of a recording, sent by one client
--concurrency N[,N…]=1,4,16,64,256  clients that send recordings of 5 s
--streams N[,N…]=1,8,24  live streams at once
--seconds N=20   of a stream
--plot FILE.png  the cost against each of what grows
""",
    takes_manifest=True,
)
