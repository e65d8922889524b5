"""`python -m lab orchestration`: Conch next to the alternatives."""

import argparse
from pathlib import Path

from conch.cli.bench import LIMIT, RATE, each_once, rates, settings_of
from conch.wire.errors import BenchError
from lab.command import Command, reporting
from lab.orchestration import plots
from lab.orchestration.benchmark import OrchestrationBenchmark, OrchestrationReport, run
from lab.orchestration.report import markdown
from lab.settings import Setting, read_settings


def _measured(args: argparse.Namespace) -> OrchestrationReport:
    more = {"rates": tuple(each_once(args.rate)), "varied": args.vary}
    return run(settings_of(OrchestrationBenchmark, args, **more))


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
    run=reporting(
        _measured,
        markdown,
        has_failed=lambda report: any(
            run.errors for item in report.systems.values() for run in item.runs
        ),
        plot=lambda report, folder: plots.write(report.systems, folder),
    ),
    description="Run the offline path over the same weights and recordings by Conch, in one "
    "process, by a blocking BLS model and by an ensemble.",
    epilog="""
The systems are: conch; in process; blocking x1, x4 and x8 (see --instances); conch, no VAD;
ensemble, no VAD. docs/notes/performance.md explains each.

examples:
  python -m lab orchestration --manifest speech/manifest.tsv --split dev --limit 24 \\
      --json report.json
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
"""
    + RATE,
    types={"plot": _folder, "vary": _settings, "rate": rates},
    takes_manifest=True,
)
