"""`python -m lab orchestration`: Conch next to the alternatives."""

import argparse
from typing import TYPE_CHECKING

from conch.cli.arguments import Subparsers, add_command
from conch.cli.bench_arguments import (
    add_counts,
    add_output,
    add_rate,
    choice_of,
    distinct,
    write_report,
)
from conch.scoring import require
from lab.arguments import add_what, add_whole, folder, settings

if TYPE_CHECKING:
    from lab.orchestration.benchmark import OrchestrationBenchmark, OrchestrationReport

EPILOG = """
The systems are: conch; in process; blocking x1, x4 and x8 (see --instances); conch, no VAD;
ensemble, no VAD. docs/notes/performance.md explains each.

examples:
  python -m lab orchestration --manifest speech/manifest.tsv --split dev --limit 24 \\
      --json found.json
  python -m lab orchestration --manifest calls.tsv --only conch --only "in process" \\
      --concurrency 4
  python -m lab orchestration --manifest calls.tsv --only conch \\
      --vary attention_decoder.intra_threads=1,attention_encoder.intra_threads=1 \\
      --vary attention_decoder.dynamic_batching.max_queue_delay_microseconds=0

exit codes: 0 measured, 1 not measured or a request failed, 2 wrong usage
"""


def add_orchestration(commands: Subparsers) -> None:
    parser = add_command(
        commands,
        "orchestration",
        run_orchestration,
        help="the offline path by Conch, and by its alternatives",
        description="Run the offline path over the same weights and recordings by Conch, in one "
        "process, by a blocking BLS model and by an ensemble.",
        epilog=EPILOG,
    )
    add_compared(parser)
    out = add_output(parser)
    out.add_argument("--plots", type=folder, metavar="FOLDER", help="for the PNG files")


def run_orchestration(args: argparse.Namespace) -> int:
    from lab.orchestration import benchmark, plots
    from lab.orchestration.report import markdown

    if args.plots:
        require("matplotlib", extra="lab")
    report = benchmark.run(benchmark_of(args))
    write_report(args, report, markdown(report))
    if args.plots:
        plots.write(report.systems, args.plots)
    return status_of(report)


def benchmark_of(args: argparse.Namespace) -> "OrchestrationBenchmark":
    """Return the benchmark that the arguments of `add_compared` ask for."""
    from lab.orchestration.benchmark import OrchestrationBenchmark

    return OrchestrationBenchmark(
        **choice_of(args),
        concurrency=distinct(args.concurrency or [1, 4, 8]),
        rates=distinct(args.rate or []),
        instances=distinct(args.instances or [1, 4, 8]),
        only=args.only,
        varied=args.vary,
        runs=args.runs,
    )


def status_of(report: "OrchestrationReport") -> int:
    """Return the exit code: 1 if a request failed."""
    return 1 if any(run.errors for item in report.systems.values() for run in item.runs) else 0


def add_compared(parser: argparse.ArgumentParser) -> "argparse._ArgumentGroup":
    """Add the systems, loads and rounds; return their group."""
    add_what(parser)
    how = parser.add_argument_group("how")
    add_counts(how, "--concurrency", "clients of the closed loops (default: 1,4,8)")
    add_rate(how)
    add_counts(how, "--instances", "of the blocking BLS model (default: 1,4,8)")
    add_whole(how, "--runs", 3, "rounds through all")
    how.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="SYSTEM",
        help="a system to measure; may be given several times (default: all)",
    )
    how.add_argument(
        "--vary",
        type=settings,
        action="append",
        default=[],
        metavar="MODEL.NAME=VALUE[,…]",
        help="Conch with these settings as well, a system for each --vary: NAME is a parameter in "
        "the model's config.pbtxt, a single number elsewhere in it, or instances",
    )
    return how
