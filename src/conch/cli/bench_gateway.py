"""`conch bench gateway`: what a gateway adds to Triton's work."""

import argparse
from pathlib import Path

from conch.cli.arguments import Subparsers, number, positive
from conch.cli.bench_arguments import add_output, counts, in_order, write_report

EPILOG = """
The benchmark starts a server and a gateway. It sends a file to both in turn, and live streams in
real time to one after the other. Nothing else should run on the machine.

examples:
  conch bench gateway --markdown gateway.md
  conch bench gateway --audio talk.wav --file-s 30 --streams 1,16,32 --seconds 60

exit codes: 0 measured; 1 not measured; 2 wrong usage
"""


def add_gateway(benchmarks: Subparsers) -> None:
    """Add the command to those of `conch bench`."""
    parser = benchmarks.add_parser(
        "gateway",
        help="latency and CPU of the gateway beside Triton's",
        description="Measure the latency and the CPU time that a gateway adds to a file and to "
        "live streams.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    what = parser.add_argument_group("what is sent")
    what.add_argument(
        "--audio", type=Path, metavar="FILE", help="a recording (default: the one of conch demo)"
    )
    seconds = number("a number of seconds from 1 to 3600", lambda value: 1 <= value <= 3600)
    what.add_argument(
        "--file-s", type=seconds, default=5.0, metavar="S", help="length of the file (default: 5)"
    )
    what.add_argument(
        "--requests",
        type=positive,
        default=40,
        metavar="N",
        help="requests to each side (default: 40)",
    )
    what.add_argument(
        "--streams",
        type=counts,
        action="append",
        metavar="N[,N…]",
        help="live streams at once; several numbers make one run each (default: 1,8)",
    )
    what.add_argument(
        "--seconds",
        type=seconds,
        default=30.0,
        metavar="S",
        help="length of each run of live streams (default: 30)",
    )
    add_output(parser)
    parser.set_defaults(run=run_gateway)


def run_gateway(args: argparse.Namespace) -> int:
    """Measure, print the tables, write the files and return the exit code."""
    from conch.bench import gateway
    from conch.cli.demo import SPEECH

    report = gateway.run(
        gateway.GatewayBenchmark(
            audio=args.audio or SPEECH,
            file_s=args.file_s,
            requests=args.requests,
            streams=in_order(args.streams or [[1, 8]]),
            seconds=args.seconds,
        )
    )
    write_report(args, report, gateway.markdown(report))
    return 0
