"""`python -m lab first`: how long a long recording takes to its first segment."""

import argparse

from conch.cli.arguments import Subparsers, add_command, add_flags
from conch.cli.bench_arguments import (
    OPTION,
    add_input,
    add_output,
    choice_of,
    options_of,
    write_report,
)
from lab.arguments import add_url, add_whole

EPILOG = """
Without --url every run of the command starts a server. To compare two versions, run it with both in
turns.

examples:
  python -m lab first --manifest speech/manifest.tsv --split dev
  python -m lab first --manifest speech/manifest.tsv --seconds 3600 --limit 1 --times 1

exit codes: 0 measured, 1 not measured, 2 wrong usage
"""


def add_first(commands: Subparsers) -> None:
    """Add the command to those of the laboratory."""
    parser = add_command(
        commands,
        "first",
        run_first,
        help="the first segment of a long recording, and that segment alone",
        description="Join the utterances of a manifest to long recordings, and ask for each as a "
        "stream: how long the first segment takes, alone and in its recording.",
        epilog=EPILOG,
    )
    what = add_input(parser)
    add_whole(what, "--seconds", 600, "of a recording, at least")
    add_whole(what, "--limit", 5, "recordings at most, spread evenly over the manifest")
    add_whole(what, "--times", 3, "times that each one is sent")
    add_flags(what, OPTION)
    add_url(parser.add_argument_group("how"))
    add_output(parser)


def run_first(args: argparse.Namespace) -> int:
    """Measure, print the table, write the files and return the exit code."""
    from lab.first import benchmark

    report = benchmark.run(
        benchmark.FirstBenchmark(
            **choice_of(args),
            seconds=args.seconds,
            times=args.times,
            options=options_of(args),
            url=args.url,
        )
    )
    write_report(args, report, benchmark.markdown(report))
    return 0
