"""`python -m lab live`: what a viewer of live streams sees."""

import argparse

from conch.bench.live import LiveBenchmark
from conch.cli.bench import add_streams, settings_of, streams_of, write_report
from lab.command import Command
from lab.live.benchmark import run
from lab.live.report import markdown


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
