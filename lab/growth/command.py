"""`python -m lab growth`: how the cost of a second of audio grows with load."""

import argparse

from conch.cli.arguments import Subparsers, add_command, add_flags, output, positive
from conch.cli.bench import LIMIT, add_counts, add_input, add_output, write_report
from conch.scoring import require
from lab.arguments import settings_of

EPILOG = """
examples:
  python -m lab growth --manifest speech/manifest.tsv --split dev --plot benchmark.png
  python -m lab growth --manifest calls.tsv --lengths 5,60 --concurrency 1,8 --streams 1,8

exit codes: 0 measured, 1 not measured or a request failed, 2 wrong usage
"""


def add_growth(commands: Subparsers) -> None:
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
    add_input(parser, LIMIT, limit=positive)
    how = parser.add_argument_group("how")
    lengths = "seconds of a recording, sent by one client (default: 1,5,30,300,3600)"
    add_counts(how, "--lengths", lengths)
    add_counts(how, "--concurrency", "clients that send recordings of 5 s (default: 1,4,16,64,256)")
    add_counts(how, "--streams", "live streams at once (default: 1,8,24)")
    add_flags(how, "--seconds N=20  of a stream", seconds=positive)
    add_flags(
        add_output(parser), "--plot FILE.png  the cost against each of what grows", plot=output
    )


def run_growth(args: argparse.Namespace) -> int:
    from lab.growth import benchmark
    from lab.growth.report import markdown, plot

    if args.plot:
        require("matplotlib", extra="lab")
    report = benchmark.run(settings_of(benchmark.GrowthBenchmark, args))
    write_report(args, report, markdown(report))
    if args.plot:
        plot(report, args.plot)
    return 1 if report.errors else 0
