"""`python -m lab bulk`: what the engine of `conch bulk` costs."""

import argparse

from conch.cli.arguments import Subparsers, add_command, add_flags, positive
from conch.cli.bench import URL, add_output, write_report
from lab.arguments import settings_of

EPILOG = """
examples:
  make bulk-env && python -m lab bulk
  python -m lab bulk --url grpc://127.0.0.1:8001 --audio 60 --seconds 1,10

The program of `conch bulk` is --bulk; it needs Ray, which is not in this environment.

exit codes: 0 measured, 1 not measured, 2 wrong usage
"""
FLAGS = """
--seconds N[,N…]=1,10,3600  lengths of files
--audio SECONDS=3600        audio of each length in all, at least a file of it
--bulk PYTHON=.venv-bulk/bin/python  Python of the environment with Ray
--jobs N=4                  files in flight
--turns N=3                 times that each is measured; the median counts
"""


def add_bulk(commands: Subparsers) -> None:
    parser = add_command(
        commands,
        "bulk",
        run_bulk,
        help="the cost of conch bulk next to conch transcribe",
        description="Transcribe the same files with conch transcribe and with conch bulk, on one "
        "server. All files are the sample of conch demo, repeated.",
        epilog=EPILOG,
    )
    wholes = dict.fromkeys(("audio", "jobs", "turns"), positive)
    add_flags(parser, FLAGS + URL, seconds=_numbers, **wholes)
    add_output(parser)


def run_bulk(args: argparse.Namespace) -> int:
    from lab.bulk import benchmark

    report = benchmark.run(settings_of(benchmark.BulkBenchmark, args))
    write_report(args, report, benchmark.markdown(report))
    return 0


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(positive(item) for item in text.split(","))
