"""`python -m lab gateway`: what a gateway adds to Triton's work."""

import argparse
from pathlib import Path

from conch.cli.arguments import Subparsers, add_command, add_flags, number, positive
from conch.cli.bench import add_counts, add_output, write_report
from conch.cli.demo import SPEECH
from lab.arguments import settings_of

EPILOG = """
The benchmark starts a server and a gateway. It sends a file to both in turn, and live streams in
real time to one after the other. Nothing else should run on the machine.

examples:
  python -m lab gateway --markdown gateway.md
  python -m lab gateway --audio talk.wav --file-s 30 --streams 1,16,32 --seconds 60

exit codes: 0 measured; 1 not measured; 2 wrong usage
"""
FLAGS = """
--audio FILE     a recording (default: the one of conch demo)
--file-s S=5     length of the file
--requests N=40  to each side
--seconds S=30   length of each run of live streams
"""
seconds = number("a number of seconds from 1 to 3600", lambda value: 1 <= value <= 3600)


def add_gateway(commands: Subparsers) -> None:
    parser = add_command(
        commands,
        "gateway",
        run_gateway,
        help="latency and CPU of the gateway next to Triton's",
        description="Measure the latency and the CPU time that a gateway adds to a file and to "
        "live streams.",
        epilog=EPILOG,
    )
    what = parser.add_argument_group("input")
    add_flags(what, FLAGS, audio=(Path, SPEECH), file_s=seconds, requests=positive, seconds=seconds)
    streams = "live streams at once; several numbers make one run each (default: 1,8)"
    add_counts(what, "--streams", streams)
    add_output(parser)


def run_gateway(args: argparse.Namespace) -> int:
    from lab.gateway import benchmark

    report = benchmark.run(settings_of(benchmark.GatewayBenchmark, args))
    write_report(args, report, benchmark.markdown(report))
    return 0
