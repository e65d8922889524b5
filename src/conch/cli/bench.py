"""`conch bench`: measure a server's speed, accuracy and memory."""

import argparse
from collections.abc import Callable
from functools import partial

from conch.cli.arguments import Subparsers
from conch.cli.bench_gateway import add_gateway
from conch.cli.bench_live import add_live
from conch.cli.bench_offline import add_offline
from conch.cli.bench_perf_analyzer import add_perf_analyzer_input
from conch.cli.signals import interrupt_on_sigterm


def add_parser(subparsers: Subparsers) -> None:
    """Add the command to those of `conch`."""
    parser = subparsers.add_parser(
        "bench", help="measure a server", description="Measure a server and print a table."
    )
    benchmarks = parser.add_subparsers(required=True, metavar="BENCHMARK")
    add_offline(benchmarks)
    add_live(benchmarks)
    add_gateway(benchmarks)
    add_perf_analyzer_input(benchmarks)
    run_in_order(benchmarks)


def run_in_order(benchmarks: Subparsers) -> None:
    """Make every command end its servers and remove its folders on SIGTERM too."""
    for benchmark in benchmarks.choices.values():
        benchmark.set_defaults(run=partial(_in_order, benchmark.get_default("run")))


def _in_order(run: Callable[[argparse.Namespace], int], args: argparse.Namespace) -> int:
    interrupt_on_sigterm()
    return run(args)
