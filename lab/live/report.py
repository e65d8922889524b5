"""A report of `python -m lab live` as Markdown."""

from collections.abc import Sequence

from conch.bench.live import COLUMNS, cells, origin
from conch.scoring.error_rates import number, percent, table
from lab.live.benchmark import ViewerReport
from lab.live.figures import ViewedRun


def markdown(report: ViewerReport) -> str:
    """Return the tables of a report and a line on their origin."""
    rate = report.rate
    columns = [*COLUMNS, "calls/chunk", "orchestration %", f"{rate} %", f"offline {rate} %"]
    rows = [
        [
            *cells(item.run),
            number(item.calls_per_chunk, 2),
            percent(item.orchestration_share),
            percent(item.run.wer),
            percent(item.offline_wer),
        ]
        for item in report.runs
    ]
    errors = [f"**{message}**" for item in report.runs for message in item.run.error_messages[:1]]
    parts = [
        f"`{report.header.command}`",
        table(columns, rows),
        _viewer(report.runs, rate),
        _rolling(report.runs),
        *errors,
        f"Error rates: {report.scoring}.",
        origin(report.header),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _viewer(runs: Sequence[ViewedRun], rate: str) -> str:
    """Return the table of what a viewer sees; `rate` is the name of the error rate."""
    columns = [
        "streams: what a viewer sees",
        f"{rate} % after 1 s",
        "after 2 s",
        "endpoint to second pass p50 ms",
        "p95",
    ]
    rows = [
        [
            str(item.streams),
            percent(item.screen_wer_1s),
            percent(item.screen_wer_2s),
            number(item.after_endpoint_ms.p50, 0),
            number(item.after_endpoint_ms.p95, 0),
        ]
        for item in runs
    ]
    return table(columns, rows)


def _rolling(runs: Sequence[ViewedRun]) -> str:
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
            str(item.streams),
            *(str(count) for count in (rolling.made, rolling.skipped, rolling.refused)),
            number(rolling.interval_ms, 0),
            number(rolling.late_ms.mean, 0),
            number(rolling.late_ms.p95, 0),
        ]
        for item in runs
        if (rolling := item.rolling) is not None
    ]
    return table(columns, rows) if rows else ""
