"""`python -m lab bulk`: what the engine of `conch bulk` costs, and what a million hours take."""

import argparse
from pathlib import Path

from conch.cli.arguments import Subparsers, add_command, positive
from conch.cli.bench_arguments import add_output, write_report
from lab.arguments import add_url

EPILOG = """
examples:
  make bulk-env && python -m lab bulk
  python -m lab bulk --url grpc://127.0.0.1:8001 --audio 60 --seconds 1,10 --nodes 1

The program of `conch bulk` is --bulk; it needs Ray, which is not in this environment.

exit codes: 0 measured, 1 not measured, 2 wrong usage
"""


def add_bulk(commands: Subparsers) -> None:
    """Add the command to those of the laboratory."""
    parser = add_command(
        commands,
        "bulk",
        run_bulk,
        help="the cost of conch bulk next to conch transcribe, and hours for a million hours",
        description="Transcribe the same files with conch transcribe and with conch bulk, on one "
        "server. All files are the sample of conch demo, repeated.",
        epilog=EPILOG,
    )
    what = parser.add_argument_group("input")
    what.add_argument(
        "--seconds",
        type=_numbers,
        default=(1, 10, 3600),
        metavar="N[,N…]",
        help="lengths of files (default: 1,10,3600)",
    )
    what.add_argument(
        "--audio",
        type=positive,
        default=3600,
        metavar="SECONDS",
        help="audio of each length in all, at least a file of it (default: 3600)",
    )
    what.add_argument(
        "--nodes",
        type=_numbers,
        default=(1, 2, 4),
        metavar="N[,N…]",
        help="Ray nodes on this machine for the files of the middle length (default: 1,2,4)",
    )
    how = parser.add_argument_group("how")
    add_url(how)
    how.add_argument(
        "--bulk",
        type=Path,
        default=Path(".venv-bulk/bin/python"),
        metavar="PYTHON",
        help="Python of the environment with Ray (default: %(default)s)",
    )
    how.add_argument(
        "--jobs", type=positive, default=4, metavar="N", help="files in flight (default: 4)"
    )
    how.add_argument(
        "--turns",
        type=positive,
        default=3,
        metavar="N",
        help="times that each is measured; the median counts (default: 3)",
    )
    add_output(parser)


def run_bulk(args: argparse.Namespace) -> int:
    """Measure, print the tables, write the files and return the exit code."""
    from lab.bulk import benchmark

    settings = benchmark.BulkBenchmark(
        seconds=args.seconds,
        audio=args.audio,
        nodes=args.nodes,
        jobs=args.jobs,
        turns=args.turns,
        bulk=str(args.bulk),
        url=args.url,
    )
    report = benchmark.run(settings)
    write_report(args, report, benchmark.markdown(report))
    return 0


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(positive(item) for item in text.split(","))
