"""`python -m lab orchestration`: Conch next to the alternatives."""

import argparse
from pathlib import Path

from conch.cli.bench_arguments import LIMIT, add_rate, distinct, write_report
from conch.wire.errors import BenchError
from lab.arguments import settings_of
from lab.command import Command
from lab.orchestration import benchmark, plots
from lab.orchestration.report import markdown
from lab.settings import Setting, read_settings


def run_command(args: argparse.Namespace) -> int:
    more = {"rates": distinct(args.rate or []), "varied": args.vary}
    report = benchmark.run(settings_of(benchmark.OrchestrationBenchmark, args, **more))
    write_report(args, report, markdown(report))
    if args.plot:
        plots.write(report.systems, args.plot)
    return (
        1 if any(item.errors for system in report.systems.values() for item in system.runs) else 0
    )


def _folder(text: str) -> Path:
    path = Path(text)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise argparse.ArgumentTypeError(f"not a folder that can be written: {error}") from None
    return path


def _settings(text: str) -> tuple[Setting, ...]:
    try:
        return read_settings(text)
    except BenchError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


COMMAND = Command(
    run=run_command,
    description="Run the offline path over the same weights and recordings by Conch, in one "
    "process, by a blocking BLS model and by an ensemble.",
    epilog="""
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
""",
    flags=LIMIT
    + """
--concurrency N[,N…]=1,4,8  clients of the closed loops
--instances N[,N…]=1,4,8    of the blocking BLS model
--runs N=3        rounds through all
--only SYSTEM...  a system to measure (default: all)
--vary MODEL.NAME=VALUE[,…]...  Conch with these settings as well, a system for each: NAME is a
                  parameter in the model's config.pbtxt, a single number elsewhere in it, or
                  instances
--plot FOLDER     for the pictures
""",
    types={"plot": _folder, "vary": _settings},
    add=add_rate,
    takes_manifest=True,
)
