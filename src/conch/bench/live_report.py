"""A live report as Markdown."""

from conch.bench.live import LiveReport
from conch.bench.live_figures import LOAD
from conch.bench.measures import PERCENTILES
from conch.bench.tables import number, percent, table


def markdown(report: LiveReport) -> str:
    """Return the table of a report and a line on its origin."""
    columns = ["streams", "keeps up", *(f"chunk p{p} ms" for p in PERCENTILES)]
    columns += [
        "END p99 ms",
        "first partial p50 ms",
        "final p50 ms",
        "calls/chunk",
        "CPU ms/chunk",
        "orchestration %",
        "WER %",
        "offline WER %",
    ]
    rows = [
        [
            str(run.streams),
            "yes" if run.keeps_up else "no",
            *(number(value, 0) for value in run.chunk_latency_ms.percentiles),
            number(run.end_ms.p99, 0),
            number(run.first_partial_ms.p50, 0),
            number(run.final_ms.p50, 0),
            number(run.calls_per_chunk, 2),
            number(run.cpu_ms_per_chunk),
            percent(run.orchestration_share),
            percent(run.wer),
            percent(run.offline_wer),
        ]
        for run in report.runs
    ]
    machine, versions = report.header.machine, report.header.versions
    settings = report.header.settings
    where = (
        f"chunks of {settings['chunk_ms']} ms, {LOAD}, {settings['seconds']} s a stream, pauses "
        f"of {settings['pause_s']} s; {machine.cpu}, {machine.cores} cores, "
        f"{machine.memory_gb:g} GB; Triton {versions['triton']}, Python {versions['python']}; "
        f"{report.header.started_at}"
    )
    errors = [f"**{item}**" for run in report.runs for item in run.error_messages[:1]]
    parts = [f"`{report.header.command}`", table(columns, rows), *errors, where]
    return "\n\n".join(parts) + "\n"
