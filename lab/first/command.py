"""`python -m lab first`: how long a long recording takes to its first segment."""

import argparse

from conch.cli.arguments import Subparsers, add_command, add_flags, positive
from conch.cli.bench import OPTION, URL, add_input, add_output, options_of, write_report
from lab.arguments import settings_of

EPILOG = """
Without --url every run of the command starts a server. To compare two versions, run it with both in
turns.

examples:
  python -m lab first --manifest speech/manifest.tsv --split dev
  python -m lab first --manifest speech/manifest.tsv --seconds 3600 --limit 1 --times 1

exit codes: 0 measured, 1 not measured, 2 wrong usage
"""
FLAGS = """
--seconds N=600  of a recording, at least
--limit N=5      recordings at most, spread evenly over the manifest
--times N=3      times that each one is sent
"""


def add_first(commands: Subparsers) -> None:
    parser = add_command(
        commands,
        "first",
        run_first,
        help="the first segment of a long recording, and that segment alone",
        description="Join the utterances of a manifest to long recordings, and ask for each as a "
        "stream: how long the first segment takes, alone and in its recording.",
        epilog=EPILOG,
    )
    add_input(parser, FLAGS + OPTION, **dict.fromkeys(("seconds", "limit", "times"), positive))
    add_flags(parser.add_argument_group("how"), URL)
    add_output(parser)


def run_first(args: argparse.Namespace) -> int:
    from lab.first import benchmark

    report = benchmark.run(settings_of(benchmark.FirstBenchmark, args, options=options_of(args)))
    write_report(args, report, benchmark.markdown(report))
    return 0
