"""A live report as Markdown."""

from collections.abc import Sequence

from conch.bench.live import LiveReport
from conch.bench.live_figures import LOAD, LiveRun
from conch.bench.measures import PERCENTILES
from conch.bench.tables import number, percent, table


def markdown(report: LiveReport) -> str:
    """Return the tables of a report and a line on their origin."""
    columns = ["streams", "keeps up", *(f"chunk p{p} ms" for p in PERCENTILES)]
    columns += [
        "END p99 ms",
        "first partial p50 ms",
        "final p50 ms",
        "calls/chunk",
        "CPU ms/chunk",
        "orchestration %",
        f"{report.rate} %",
        f"offline {report.rate} %",
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
    parts = [
        f"`{report.header.command}`",
        table(columns, rows),
        _viewer(report.runs, report.rate),
        _rolling(report.runs),
        *errors,
        f"Error rates: {report.scoring}.",
        where,
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _viewer(runs: Sequence[LiveRun], rate: str) -> str:
    """Return the table of what a viewer sees; `rate` is the name of the error rate."""
    columns = [
        "streams: what a viewer sees",
        f"{rate} % after 1 s",
        "after 2 s",
        "firm after ms, mean",
        "p50",
        "p95",
        "words revised %",
        "firm words revised %",
        "endpoint to second pass p50 ms",
        "p95",
        "CPU s / audio s",
    ]
    rows = [
        [
            str(run.streams),
            percent(run.screen_wer_1s),
            percent(run.screen_wer_2s),
            number(run.firm_lag_ms.mean, 0),
            number(run.firm_lag_ms.p50, 0),
            number(run.firm_lag_ms.p95, 0),
            percent(run.revised_share),
            percent(run.firm_revised_share),
            number(run.after_endpoint_ms.p50, 0),
            number(run.after_endpoint_ms.p95, 0),
            number(run.cpu_s_per_audio_s, 3),
        ]
        for run in runs
    ]
    return table(columns, rows)


def _rolling(runs: Sequence[LiveRun]) -> str:
    """Return the table of rolling passes; an empty text if no run has them."""
    columns = [
        "streams: rolling passes",
        "made",
        "skipped",
        "refused",
        "interval ms",
        "late ms, mean",
        "p95",
    ]
    rows = [
        [
            str(run.streams),
            *(str(count) for count in (found.made, found.skipped, found.refused)),
            number(found.interval_ms, 0),
            number(found.late_ms.mean, 0),
            number(found.late_ms.p95, 0),
        ]
        for run in runs
        if (found := run.rolling) is not None
    ]
    return table(columns, rows) if rows else ""
