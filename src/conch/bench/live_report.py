"""A live report as Markdown."""

from conch.bench.header import Header
from conch.bench.live import LiveReport
from conch.bench.live_figures import LOAD, LiveRun
from conch.bench.report import machine_line
from conch.bench.speed import PERCENTILES
from conch.scoring.tables import number, percent, table

COLUMNS = (
    *("streams", "keeps up", *(f"chunk p{p} ms" for p in PERCENTILES), "END p99 ms"),
    *("first partial p50 ms", "final p50 ms", "CPU ms/chunk", "CPU s / audio s", "peak MB"),
)


def markdown(report: LiveReport) -> str:
    rate = report.scoring.partition(",")[0]
    errors = [f"**{item}**" for run in report.runs for item in run.error_messages[:1]]
    parts = [
        f"`{report.header.command}`",
        table([*COLUMNS, f"{rate} %"], [[*cells(run), percent(run.wer)] for run in report.runs]),
        *errors,
        f"Error rates: {report.scoring}.",
        origin(report.header),
    ]
    return "\n\n".join(parts) + "\n"


def cells(run: LiveRun) -> list[str]:
    """Return the cells under `COLUMNS`."""
    return [
        str(run.streams),
        "yes" if run.keeps_up else "no",
        *(number(value, 0) for value in run.chunk_latency_ms.percentiles),
        number(run.end_ms.p99, 0),
        number(run.first_partial_ms.p50, 0),
        number(run.final_ms.p50, 0),
        number(run.cpu_ms_per_chunk),
        number(run.cpu_s_per_audio_s, 3),
        number(run.peak_memory_mb, 0),
    ]


def origin(header: Header) -> str:
    """Return a line on the origin of the figures of live streams."""
    settings = header.settings
    return (
        f"chunks of {settings['chunk_ms']} ms, {LOAD}, {settings['seconds']} s a stream, pauses "
        f"of {settings['pause_s']} s; {machine_line(header)}"
    )
