"""`python -m lab live`: what a viewer of live streams sees."""

import argparse

from conch.cli.arguments import Subparsers, add_command
from conch.cli.bench import add_output, add_streams, live_benchmark_of, write_report

EPILOG = """
examples:
  python -m lab live --manifest speech/manifest.tsv --split dev --streams 8,24 --chunk-ms 200

exit codes: 0 measured; 1 not measured, or every stream of a run failed; 2 wrong usage
"""


def add_live(commands: Subparsers) -> None:
    parser = add_command(
        commands,
        "live",
        run_live,
        help="live streams, and what a viewer of them sees",
        description="Do what `conch bench live` does. Report also how right the text on the screen "
        "is, the rolling passes, and the error rate of the offline path on the same audio.",
        epilog=EPILOG,
    )
    add_streams(parser)
    add_output(parser)


def run_live(args: argparse.Namespace) -> int:
    settings = live_benchmark_of(args)
    from conch.bench.live import LiveBenchmark
    from lab.live import benchmark
    from lab.live.report import markdown

    asked = LiveBenchmark(**settings)
    report = benchmark.run(asked)
    write_report(args, report, markdown(report))
    runs = [item.run for item in report.runs[: len(asked.streams)]]
    return 1 if any(run.errors == run.streams for run in runs) else 0
