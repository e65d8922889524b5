"""`python -m lab live`: its report as Markdown."""

import argparse
from collections.abc import Sequence

from conch.bench.live import COLUMNS, LiveBenchmark, cells, origin
from conch.cli.bench import add_streams, settings_of, streams_of, write_report
from conch.scoring.error_rates import number, percent, table
from lab.command import Command
from lab.live.benchmark import ViewerReport, run
from lab.live.figures import ViewedRun
from lab.reports import page, table_of


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
    return page(
        report.header,
        table(columns, rows),
        _viewer(report.runs, rate),
        _rolling(report.runs),
        *errors,
        f"Error rates: {report.scoring}.",
        origin(report.header),
    )


def _viewer(runs: Sequence[ViewedRun], rate: str) -> str:
    """Return the table of what a viewer sees; `rate` is the name of the error rate."""
    return table_of(
        runs,
        (
            ("streams: what a viewer sees", lambda run: run.streams),
            (f"{rate} % after 1 s", lambda run: percent(run.screen_wer_1s)),
            ("after 2 s", lambda run: percent(run.screen_wer_2s)),
            ("firm after ms, mean", lambda run: number(run.firm_lag_ms.mean, 0)),
            ("p50", lambda run: number(run.firm_lag_ms.p50, 0)),
            ("p95", lambda run: number(run.firm_lag_ms.p95, 0)),
            ("words revised %", lambda run: percent(run.revised_share)),
            ("firm words revised %", lambda run: percent(run.firm_revised_share)),
            (
                "endpoint to second pass p50 ms",
                lambda run: number(run.after_endpoint_ms.p50, 0),
            ),
            ("p95", lambda run: number(run.after_endpoint_ms.p95, 0)),
        ),
    )


def _rolling(runs: Sequence[ViewedRun]) -> str:
    """Return the table of rolling passes; an empty text if no run has them."""
    return table_of(
        [(run.streams, run.rolling) for run in runs if run.rolling],
        (
            ("streams: rolling passes", lambda pair: pair[0]),
            ("made", lambda pair: pair[1].made),
            ("skipped", lambda pair: pair[1].skipped),
            ("refused", lambda pair: pair[1].refused),
            ("interval ms", lambda pair: number(pair[1].interval_ms, 0)),
            ("late ms, mean", lambda pair: number(pair[1].late_ms.mean, 0)),
            ("p95", lambda pair: number(pair[1].late_ms.p95, 0)),
        ),
    )


def run_command(args: argparse.Namespace) -> int:
    benchmark = settings_of(LiveBenchmark, args, **streams_of(args))
    report = run(benchmark)
    write_report(args, report, markdown(report))
    runs = [item.run for item in report.runs[: len(benchmark.streams)]]
    return 1 if any(item.errors == item.streams for item in runs) else 0


COMMAND = Command(
    run=run_command,
    description="Do what `conch bench live` does. Report also how right the text on the screen is, "
    "the rolling passes, and the error rate of the offline path on the same audio.",
    epilog="""
examples:
  python -m lab live --manifest speech/manifest.tsv --split dev --streams 8,24 --chunk-ms 200
""",
    add=add_streams,
)
