"""A report of `python -m lab live` as Markdown."""

from collections.abc import Sequence

from conch.bench.live_report import COLUMNS, cells, origin
from conch.scoring.tables import number, percent, table
from lab.live.benchmark import ViewerReport
from lab.live.figures import ViewedRun


def markdown(report: ViewerReport) -> str:
    rate = report.rate
    columns = [*COLUMNS, "orchestration %", f"{rate} %", f"offline {rate} %"]
    rows = [
        [
            *cells(item.run),
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
        *errors,
        f"Error rates: {report.scoring}.",
        origin(report.header),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _viewer(runs: Sequence[ViewedRun], rate: str) -> str:
    """Return the table of what a viewer sees; `rate` is the name of the error rate."""
    columns = [
        "streams: what a viewer sees",
        f"{rate} % after 2 s",
        "endpoint to second pass p50 ms",
        "p95",
        "rolling passes",
        "skipped",
    ]
    rows = [
        [
            str(item.streams),
            percent(item.screen_wer_2s),
            number(item.after_endpoint_ms.p50, 0),
            number(item.after_endpoint_ms.p95, 0),
            *((str(found.made), str(found.skipped)) if (found := item.rolling) else ("-", "-")),
        ]
        for item in runs
    ]
    return table(columns, rows)
