"""`python -m lab orchestration`: its report as Markdown."""

import argparse
from collections.abc import Mapping
from pathlib import Path

from conch.bench.figures import PERCENTILES
from conch.bench.header import origin
from conch.cli.bench import LIMIT, RATE, each_once, rates, settings_of
from conch.scoring.error_rates import number, percent, table
from conch.wire.errors import BenchError
from lab.command import Command, reporting
from lab.orchestration import plots
from lab.orchestration.benchmark import OrchestrationBenchmark, OrchestrationReport, run
from lab.orchestration.figures import LoadFigures, Ratio, SystemFigures
from lab.reports import page, table_of
from lab.settings import Setting, read_settings

Systems = Mapping[str, SystemFigures]


def markdown(report: OrchestrationReport) -> str:
    where = origin(report.header, f"{report.utterances} utterances", report.audio_s)
    return page(
        report.header,
        _systems(report.systems),
        _ratios(report.ratios),
        _errors(report.systems),
        f"{report.header.settings['runs']} rounds; {where}",
    )


def _runs(systems: Systems) -> list[tuple[str, SystemFigures, LoadFigures]]:
    return [(name, item, run) for name, item in systems.items() for run in item.runs]


def _systems(systems: Systems) -> str:
    columns = ["system", "load", "RTFx", *(f"p{p} ms" for p in PERCENTILES), "WER %"]
    columns += ["calls/request", "CPU s / audio s", "not components' %", "peak MB"]
    rows = [
        [
            name,
            run.title,
            number(run.rtfx),
            *(number(value, 0) for value in run.latency_ms.percentiles),
            percent(run.accuracy.wer),
            number(run.calls_per_request or None, 2),
            number(run.cpu_s_per_audio_s.get("total"), 4),
            percent(run.orchestration_share),
            number(system.peak_memory_mb, 0),
        ]
        for name, system, run in _runs(systems)
    ]
    return table(columns, rows)


def _ratios(ratios: Mapping[str, Ratio]) -> str:
    return table_of(
        [(pair, item, load) for pair, item in ratios.items() for load in item.loads],
        (
            ("median of the rounds' ratios", lambda row: row[0]),
            ("load", lambda row: row[2].title),
            ("RTFx", lambda row: number(row[2].rtfx, 3)),
            ("p50", lambda row: number(row[2].p50, 3)),
            ("CPU", lambda row: number(row[2].cpu, 3)),
            ("memory", lambda row: number(row[1].memory, 2)),
            ("orchestrator's memory", lambda row: number(row[1].orchestrator_memory, 2)),
        ),
    )


def _errors(systems: Systems) -> str:
    return "\n\n".join(
        f"**{name}, {run.title}: {run.errors} requests failed: {run.error_messages[0]}**"
        for name, _, run in _runs(systems)
        if run.errors
    )


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
