"""The report of `python -m lab orchestration` as Markdown."""

from collections.abc import Mapping

from conch.bench.figures import PERCENTILES
from conch.bench.report import origin
from conch.scoring.tables import NOTHING, number, percent, table
from lab.orchestration.benchmark import OrchestrationReport
from lab.orchestration.figures import LoadFigures, Ratio, SystemFigures
from lab.orchestration.systems import CLIENT

Systems = Mapping[str, SystemFigures]


def markdown(report: OrchestrationReport) -> str:
    """Return the tables of a report and a line on their origin."""
    where = origin(report.header, f"{report.utterances} utterances", report.audio_s)
    parts = [
        f"`{report.header.command}`",
        _systems(report.systems),
        _ratios(report.ratios),
        _cpu(report.systems),
        _memory(report.systems),
        _stages(report.systems),
        _errors(report.systems),
        f"{report.header.settings['runs']} rounds; {where}",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _runs(systems: Systems) -> list[tuple[str, SystemFigures, LoadFigures]]:
    return [(name, item, run) for name, item in systems.items() for run in item.runs]


def _systems(systems: Systems) -> str:
    columns = ["system", "load", "RTFx", *(f"p{p} ms" for p in PERCENTILES), "WER %"]
    columns += ["calls/request", "CPU s / audio s", "peak MB"]
    rows = [
        [
            name,
            run.title,
            number(run.rtfx),
            *(number(value, 0) for value in run.latency_ms.percentiles),
            percent(run.accuracy.wer),
            number(run.calls_per_request or None, 2),
            number(run.cpu_s_per_audio_s.get("total"), 4),
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


def _cpu(systems: Systems) -> str:
    found = [(name, run) for name, _, run in _runs(systems) if run.cpu_s_per_audio_s]
    processes = dict.fromkeys(
        process
        for _, run in found
        for process in run.cpu_s_per_audio_s
        if process not in ("total", CLIENT)
    )
    columns = [*processes, "total", CLIENT]
    rows = [
        [
            name,
            run.title,
            *(number(run.cpu_s_per_audio_s.get(column), 4) for column in columns),
            percent(run.orchestration_share),
        ]
        for name, run in found
    ]
    header = ["CPU seconds per second of audio", "load", *columns, "orchestration %"]
    return table(header, rows) if rows else ""


def _memory(systems: Systems) -> str:
    processes = dict.fromkeys(
        process for item in systems.values() for process in item.memory_by_process_mb
    )
    rows = [
        [
            name,
            *(number(item.memory_by_process_mb.get(process), 0) for process in processes),
            number(item.peak_memory_mb, 0),
        ]
        for name, item in systems.items()
    ]
    return table(["peak memory (PSS), MB", *processes, "total"], rows)


def _stages(systems: Systems) -> str:
    found = [(name, run) for name, _, run in _runs(systems) if run.stages]
    components = dict.fromkeys(component for _, run in found for component in run.stages)
    rows = []
    for name, run in found:
        cells = []
        for component in components:
            stage = run.stages.get(component)
            text = f"{stage.queue_ms:.0f} + {stage.compute_ms:.0f}" if stage else NOTHING
            cells.append(text)
        rows.append([name, run.title, *cells, number(run.latency_ms.mean, 0)])
    header = ["ms of a request, waiting + computing", "load", *components, "latency, mean"]
    return table(header, rows) if rows else ""


def _errors(systems: Systems) -> str:
    return "\n\n".join(
        f"**{name}, {run.title}: {run.errors} requests failed: {run.error_messages[0]}**"
        for name, _, run in _runs(systems)
        if run.errors
    )
