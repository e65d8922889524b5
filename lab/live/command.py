"""`python -m lab live`: what a viewer of live streams sees."""

import argparse

from conch.cli.arguments import Subparsers, add_command, output
from conch.cli.bench import add_streams, live_benchmark_of
from conch.cli.bench_arguments import add_output, write_report
from conch.scoring import require

EPILOG = """
examples:
  python -m lab live --manifest speech/manifest.tsv --split dev --streams 8,24 --chunk-ms 200
  python -m lab live --manifest calls.tsv --telephone --streams 4 --json calls.json
  python -m lab live --manifest speech/manifest.tsv --streams 2,4,8 --plot live.png

exit codes: 0 measured; 1 not measured, or every stream of a run failed; 2 wrong usage
"""


def add_live(commands: Subparsers) -> None:
    """Add the command to those of the laboratory."""
    parser = add_command(
        commands,
        "live",
        run_live,
        help="live streams, and what a viewer of them sees",
        description="Do what `conch bench live` does. Report also how right, how early and how "
        "steady the text on the screen is, the rolling passes, and the error rate of the offline "
        "path on the same audio.",
        epilog=EPILOG,
    )
    add_streams(parser).add_argument(
        "--telephone",
        action="store_true",
        help="as noisy telephone calls: 8 kHz, 300 to 3400 Hz, noise 15 dB below the speech; the "
        "same noise each time",
    )
    add_output(parser).add_argument(
        "--plot",
        type=output,
        metavar="FILE.png",
        help="word error rates against the number of streams; needs matplotlib",
    )


def run_live(args: argparse.Namespace) -> int:
    """Measure, print the tables, write the files and return the exit code."""
    settings = live_benchmark_of(args)
    from lab.live import benchmark
    from lab.live.report import markdown, plot

    if args.plot:
        # Before the measurement, which takes minutes.
        require("matplotlib", extra="lab")
    asked = benchmark.ViewerBenchmark(**settings, telephone=args.telephone)
    report = benchmark.run(asked)
    write_report(args, report, markdown(report))
    if args.plot:
        plot(report.runs, args.plot, report.rate)
    runs = [item.run for item in report.runs[: len(asked.streams)]]
    return 1 if any(run.errors == run.streams for run in runs) else 0
