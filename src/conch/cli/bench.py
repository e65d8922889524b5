"""`conch bench`: measure a server's speed, accuracy and memory."""

from conch.cli.arguments import Subparsers
from conch.cli.bench_live import add_live
from conch.cli.bench_offline import add_offline


def add_parser(subparsers: Subparsers) -> None:
    """Add the command to those of `conch`."""
    parser = subparsers.add_parser(
        "bench", help="measure a server", description="Measure a server and print a table."
    )
    benchmarks = parser.add_subparsers(required=True, metavar="BENCHMARK")
    add_offline(benchmarks)
    add_live(benchmarks)
