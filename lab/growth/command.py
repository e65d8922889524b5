"""`python -m lab growth`: how the cost of a second of audio grows with load."""

import argparse

from conch.cli.arguments import Subparsers, add_command, output
from conch.cli.bench_arguments import add_counts, add_output, choice_of, distinct, write_report
from conch.scoring import require
from lab.arguments import add_what, add_whole

EPILOG = """
examples:
  python -m lab growth --manifest speech/manifest.tsv --split dev --plot benchmark.png
  python -m lab growth --manifest calls.tsv --lengths 5,60 --concurrency 1,8 --streams 1,8

exit codes: 0 measured, 1 not measured or a request failed, 2 wrong usage
"""


def run_growth(args: argparse.Namespace) -> int:
    """Measure, print the tables, write the files and return the exit code."""
    from lab.growth import benchmark
    from lab.growth.report import markdown, plot

    if args.plot:
        require("matplotlib", extra="lab")
    report = benchmark.run(
        benchmark.GrowthBenchmark(
            **choice_of(args),
            lengths=distinct(args.lengths or [1, 5, 30, 300, 3600]),
            concurrency=distinct(args.concurrency or [1, 4, 16, 64, 256]),
            streams=distinct(args.streams or [1, 8, 24]),
            seconds=args.seconds,
        )
    )
    write_report(args, report, markdown(report))
    if args.plot:
        plot(report, args.plot)
    return 1 if report.errors else 0


def add_growth(commands: Subparsers) -> None:
    """Add the command to those of the laboratory."""
    parser = add_command(
        commands,
        "growth",
        run_growth,
        help="the cost of a second of audio as lengths, clients and streams grow",
        description="Let the length of recordings, the number of clients and the number of live "
        "streams grow, one at a time, and see the cost of a second of audio: CPU by process, and "
        "memory. The command starts its servers.",
        epilog=EPILOG,
    )
    add_what(parser)
    how = parser.add_argument_group("how")
    lengths = "seconds of a recording, sent by one client (default: 1,5,30,300,3600)"
    add_counts(how, "--lengths", lengths)
    add_counts(how, "--concurrency", "clients that send recordings of 5 s (default: 1,4,16,64,256)")
    add_counts(how, "--streams", "live streams at once (default: 1,8,24)")
    add_whole(how, "--seconds", 20, "of a stream")
    out = add_output(parser)
    out.add_argument(
        "--plot", type=output, metavar="FILE.png", help="the cost against each of what grows"
    )
