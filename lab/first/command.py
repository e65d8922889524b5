"""`python -m lab first`: how long a long recording takes to its first segment."""

import argparse

from conch.bench.options import parse_options
from conch.cli.arguments import Subparsers, positive
from conch.cli.bench_arguments import add_option, add_output, add_speech, add_url, write_report

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
    parser = commands.add_parser(
        "first",
        help="the first segment of a long recording, beside that segment alone",
        description="Join the utterances of a manifest to long recordings, and ask for each as a "
        "stream: how long the first segment takes, alone and in its recording.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    what = add_speech(parser)
    for name, value, meaning in (
        ("seconds", 600, "of a recording, at least"),
        ("limit", 5, "recordings at most, spread evenly over the manifest"),
        ("times", 3, "times that each one is sent"),
    ):
        what.add_argument(
            f"--{name}",
            type=positive,
            default=value,
            metavar="N",
            help=f"{meaning} (default: {value})",
        )
    add_option(what)
    add_url(parser.add_argument_group("how"))
    add_output(parser)
    parser.set_defaults(run=run_first)


def run_first(args: argparse.Namespace) -> int:
    """Measure, print the table, write the files and return the exit code."""
    from lab.first import benchmark

    report = benchmark.run(
        benchmark.FirstBenchmark(
            manifest=args.manifest,
            split=args.split,
            source=args.source,
            seconds=args.seconds,
            limit=args.limit,
            times=args.times,
            options=parse_options(args.option),
            url=args.url,
        )
    )
    write_report(args, report, benchmark.markdown(report))
    return 0
