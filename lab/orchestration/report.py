"""The report of `conch bench orchestration` as Markdown."""

from collections.abc import Mapping, Sequence
from typing import Any

from conch.bench import hops
from conch.bench.report import NOTHING, number, origin, percent, table
from conch.bench.systems import CLIENT


def markdown(report: Mapping[str, Any]) -> str:
    """Return the tables of a report and a line on where they come from."""
    parts = [
        f"`{report['command']}`",
        goals_table(report["goals"]),
        _systems(report),
        _ratios(report["ratios"]),
        _cpu(report["systems"]),
        _memory(report["systems"]),
        _stages(report["systems"]),
        _bytes(report["bytes_per_request"]),
        _bls_call(report["bls_call"]),
        _added(report["added"]),
        _errors(report["systems"]),
        f"{report['runs']} rounds; {origin(report, report)}",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def goals_table(goals: Sequence[Mapping[str, Any]]) -> str:
    """Return goals, what was measured and whether it is enough."""
    words = {True: "yes", False: "**no**", None: NOTHING}
    rows = [
        [item["goal"], item["wanted"], number(item["measured"], 3), words[item["met"]]]
        for item in goals
    ]
    return table(["goal", "wanted", "measured", "met"], rows)


def _runs(systems: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any], Mapping[str, Any]]]:
    return [(name, item, run) for name, item in systems.items() for run in item["runs"]]


def _systems(report: Mapping[str, Any]) -> str:
    columns = ["system", "load", "RTFx", *(f"p{p} ms" for p in (50, 90, 95, 99)), "WER %"]
    columns += ["calls/request", "CPU s / audio s", "peak MB"]
    rows = [
        [
            name,
            run["title"],
            number(run["rtfx"]),
            *(number(run["latency_ms"][f"p{p}"], 0) for p in (50, 90, 95, 99)),
            percent(run["wer"]),
            number(run["calls_per_request"] or None, 2),
            number(run["cpu_s_per_audio_s"].get("total"), 4),
            number(system["peak_memory_mb"], 0),
        ]
        for name, system, run in _runs(report["systems"])
    ]
    return table(columns, rows)


def _ratios(ratios: Mapping[str, Any]) -> str:
    rows = [
        [
            pair,
            load["title"],
            *(number(load[name], 3) for name in ("rtfx", "p50", "p99", "cpu")),
            number(item["memory"], 2),
            number(item["orchestrator_memory"], 2),
        ]
        for pair, item in ratios.items()
        for load in item["loads"]
    ]
    columns = ["median of the rounds' ratios", "load", "RTFx", "p50", "p99", "CPU", "memory"]
    return table([*columns, "orchestrator's memory"], rows) if rows else ""


def _cpu(systems: Mapping[str, Any]) -> str:
    found = [(name, run) for name, system, run in _runs(systems) if run["cpu_s_per_audio_s"]]
    processes = dict.fromkeys(
        process
        for _, run in found
        for process in run["cpu_s_per_audio_s"]
        if process not in ("total", CLIENT)
    )
    columns = [*processes, "total", CLIENT]
    rows = [
        [
            name,
            run["title"],
            *(number(run["cpu_s_per_audio_s"].get(column), 4) for column in columns),
            percent(run["orchestration_share"]),
        ]
        for name, run in found
    ]
    header = ["CPU seconds per second of audio", "load", *columns, "orchestration %"]
    return table(header, rows) if rows else ""


def _memory(systems: Mapping[str, Any]) -> str:
    processes = dict.fromkeys(
        process for item in systems.values() for process in item["memory_by_process_mb"]
    )
    rows = [
        [
            name,
            *(number(item["memory_by_process_mb"].get(process), 0) for process in processes),
            number(item["peak_memory_mb"], 0),
        ]
        for name, item in systems.items()
    ]
    return table(["peak memory (PSS), MB", *processes, "total"], rows)


def _stages(systems: Mapping[str, Any]) -> str:
    found = [(name, run) for name, _, run in _runs(systems) if run["stages"]]
    components = dict.fromkeys(component for _, run in found for component in run["stages"])
    rows = []
    for name, run in found:
        cells = []
        for component in components:
            stage = run["stages"].get(component)
            text = f"{stage['queue_ms']:.0f} + {stage['compute_ms']:.0f}" if stage else NOTHING
            cells.append(text)
        rows.append([name, run["title"], *cells, number(run["latency_ms"]["mean"], 0)])
    header = ["ms of a request, waiting + computing", "load", *components, "latency, mean"]
    return table(header, rows) if rows else ""


def _bytes(sizes: Mapping[str, float] | None) -> str:
    if sizes is None:
        return ""
    rows = [[name, number(size / 1e6, 3)] for name, size in sizes.items()]
    return table(["tensors in and out of calls", "MB per request"], rows)


def _bls_call(figures: Mapping[str, Any] | None) -> str:
    if figures is None:
        return ""
    rows = [[payload, model, *(number(value, 2) for value in rest)]
            for payload, model, *rest in hops.rows(figures)]  # fmt: skip
    direct = [
        [payload, "none: direct", number(item["direct"]["latency_ms"], 2), NOTHING, NOTHING]
        for payload, item in figures.items()
    ]
    columns = ["tensor", "model", "latency with one call, ms", "a call, ms", "a call, ms of CPU"]
    return table(columns, direct + rows)


def _added(roads: Sequence[Mapping[str, Any]] | None) -> str:
    if roads is None:
        return ""
    ways = ("speech", "compute", "direct", "ensemble")
    rows = [
        [
            road["road"],
            *(number(road.get(f"{way}_ms")) for way in ways),
            *(number(road.get(f"added_to_{way}_ms"), sign=True) for way in ways[1:]),
            number(road["waiting_ms"]),
        ]
        for road in roads
    ]
    columns = ["utterance of 5 s, p50 ms", "`speech`", "components' executions", "direct"]
    columns += ["ensemble", *(f"added to {way}" for way in ("executions", "direct", "ensemble"))]
    columns += ["of it in queues"]
    return table(columns, rows)


def _errors(systems: Mapping[str, Any]) -> str:
    return "\n\n".join(
        f"**{name}, {run['title']}: {run['errors']} requests failed: {run['error_messages'][0]}**"
        for name, _, run in _runs(systems)
        if run["errors"]
    )
