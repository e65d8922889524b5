"""`python -m lab gateway`: what a gateway adds to Triton's work."""

import argparse
from pathlib import Path

from conch.cli.arguments import Subparsers, add_command, number
from conch.cli.bench_arguments import add_counts, add_output, distinct, write_report
from lab.arguments import add_whole

EPILOG = """
The benchmark starts a server and a gateway. It sends a file to both in turn, and live streams in
real time to one after the other. Nothing else should run on the machine.

examples:
  python -m lab gateway --markdown gateway.md
  python -m lab gateway --audio talk.wav --file-s 30 --streams 1,16,32 --seconds 60

exit codes: 0 measured; 1 not measured; 2 wrong usage
"""


def add_gateway(commands: Subparsers) -> None:
    """Add the command to those of the laboratory."""
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
    what.add_argument(
        "--audio", type=Path, metavar="FILE", help="a recording (default: the one of conch demo)"
    )
    seconds = number("a number of seconds from 1 to 3600", lambda value: 1 <= value <= 3600)
    what.add_argument(
        "--file-s", type=seconds, default=5.0, metavar="S", help="length of the file (default: 5)"
    )
    add_whole(what, "--requests", 40, "requests to each side")
    streams = "live streams at once; several numbers make one run each (default: 1,8)"
    add_counts(what, "--streams", streams)
    what.add_argument(
        "--seconds",
        type=seconds,
        default=30.0,
        metavar="S",
        help="length of each run of live streams (default: 30)",
    )
    add_output(parser)


def run_gateway(args: argparse.Namespace) -> int:
    """Measure, print the tables, write the files and return the exit code."""
    from conch.cli.demo import SPEECH
    from lab.gateway import benchmark

    report = benchmark.run(
        benchmark.GatewayBenchmark(
            audio=args.audio or SPEECH,
            file_s=args.file_s,
            requests=args.requests,
            streams=distinct(args.streams or [1, 8]),
            seconds=args.seconds,
        )
    )
    write_report(args, report, benchmark.markdown(report))
    return 0
