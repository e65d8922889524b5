"""The report of `python -m lab orchestration` as Markdown."""

from collections.abc import Mapping

from conch.bench.figures import PERCENTILES
from conch.bench.header import origin
from conch.scoring.error_rates import number, percent, table
from lab.orchestration.benchmark import OrchestrationReport
from lab.orchestration.figures import LoadFigures, Ratio, SystemFigures

Systems = Mapping[str, SystemFigures]


def markdown(report: OrchestrationReport) -> str:
    where = origin(report.header, f"{report.utterances} utterances", report.audio_s)
    parts = [
        f"`{report.header.command}`",
        _systems(report.systems),
        _ratios(report.ratios),
        _errors(report.systems),
        f"{report.header.settings['runs']} rounds; {where}",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


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
    rows = [
        [
            pair,
            load.title,
            *(number(value, 3) for value in (load.rtfx, load.p50, load.p99, load.cpu)),
            number(item.memory, 2),
            number(item.orchestrator_memory, 2),
        ]
        for pair, item in ratios.items()
        for load in item.loads
    ]
    columns = ["median of the rounds' ratios", "load", "RTFx", "p50", "p99", "CPU", "memory"]
    return table([*columns, "orchestrator's memory"], rows) if rows else ""


def _errors(systems: Systems) -> str:
    return "\n\n".join(
        f"**{name}, {run.title}: {run.errors} requests failed: {run.error_messages[0]}**"
        for name, _, run in _runs(systems)
        if run.errors
    )
