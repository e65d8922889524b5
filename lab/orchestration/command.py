"""`python -m lab orchestration`: Conch next to the alternatives."""

import argparse
from pathlib import Path

from conch.cli.arguments import Subparsers, add_command, add_flags, positive
from conch.cli.bench import LIMIT, add_counts, add_input, add_output, add_rate, write_report
from conch.scoring import require
from conch.wire.errors import BenchError
from lab.arguments import settings_of
from lab.settings import Setting, read_settings

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
FLAGS = """
--runs N=3        rounds through all
--only SYSTEM...  a system to measure (default: all)
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
    add_input(parser, LIMIT, limit=positive)
    how = parser.add_argument_group("how")
    add_counts(how, "--concurrency", "clients of the closed loops (default: 1,4,8)")
    add_rate(how)
    add_counts(how, "--instances", "of the blocking BLS model (default: 1,4,8)")
    add_flags(how, FLAGS, runs=positive)
    how.add_argument(
        "--vary",
        type=settings,
        action="append",
        default=[],
        metavar="MODEL.NAME=VALUE[,…]",
        help="Conch with these settings as well, a system for each --vary: NAME is a parameter in "
        "the model's config.pbtxt, a single number elsewhere in it, or instances",
    )
    add_flags(add_output(parser), "--plots FOLDER  for the PNG files", plots=folder)


def run_orchestration(args: argparse.Namespace) -> int:
    from lab.orchestration import benchmark, plots
    from lab.orchestration.report import markdown

    if args.plots:
        require("matplotlib", extra="lab")
    more = {"rates": list(dict.fromkeys(args.rate or [])), "varied": args.vary}
    report = benchmark.run(settings_of(benchmark.OrchestrationBenchmark, args, **more))
    write_report(args, report, markdown(report))
    if args.plots:
        plots.write(report.systems, args.plots)
    return 1 if any(run.errors for item in report.systems.values() for run in item.runs) else 0


def folder(text: str) -> Path:
    """Return the name of a folder, which is created if it is missing."""
    path = Path(text)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise argparse.ArgumentTypeError(f"not a folder that can be written: {error}") from None
    return path


def settings(text: str) -> tuple[Setting, ...]:
    try:
        return read_settings(text)
    except BenchError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
