"""From the rounds of `conch bench orchestration` to the figures that its report states."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from conch.bench.figures import accuracy
from conch.bench.load import Offer
from conch.bench.manifest import Utterance
from conch.bench.measures import latency_ms, rtfx, share_of
from conch.bench.systems import CLIENT, Clip, Measured, System, SystemRun

LEAST_FOR_P99 = 100
"""Latencies: of fewer, p99 is little more than the largest."""


@dataclass(slots=True)
class Rounds:
    """What came of one system."""

    system: System
    measured: list[Measured] = field(default_factory=list)


def system_figures(
    rounds: Rounds, utterances: Sequence[Utterance], clips: Sequence[Clip]
) -> dict[str, Any]:
    """Return what all rounds of one system say; see the module."""
    memory = [item.memory for item in rounds.measured]
    system = rounds.system
    by_offer: dict[Offer, list[SystemRun]] = {}
    for item in rounds.measured:
        for one in item.runs:
            by_offer.setdefault(one.offered, []).append(one)
    return {
        "kind": system.kind,
        "models": list(system.models),
        "settings": list(map(str, system.settings)),
        "options": dict(system.options),
        "runs": [
            {
                **_run_figures(found, utterances, clips),
                "orchestration_share": _orchestration_share(system, found),
            }
            for found in by_offer.values()
        ],
        "peak_memory_mb": round(statistics.median(item.total_mb for item in memory), 1),
        "peak_memory_mb_rounds": [item.total_mb for item in memory],
        "memory_by_process_mb": _median_by_process([item.by_process_mb for item in memory]),
        "memory_by_process_mb_rounds": [item.by_process_mb for item in memory],
    }


def _run_figures(
    rounds: Sequence[SystemRun], utterances: Sequence[Utterance], clips: Sequence[Clip]
) -> dict[str, Any]:
    first = rounds[0]
    answered = [[item for item in run.load.outcomes if item.answer is not None] for run in rounds]
    audio_s = [
        sum(clips[item.index % len(clips)].duration_s for item in found) for found in answered
    ]
    # Once each, or those that are sent more often than others would count more.
    once = [item for item in answered[0] if item.index < len(clips)]
    rates = [rtfx(*pair) for pair in zip(audio_s, (run.load.wall_s for run in rounds), strict=True)]
    p50_ms = [latency_ms([item.latency_s for item in found])["p50"] for found in answered]
    failed = [item for run in rounds for item in run.load.outcomes if item.answer is None]
    return {
        "title": first.offered.title,
        "load": first.offered.load,
        "concurrency": first.offered.concurrency,
        "rate": first.offered.rate,
        "rtfx": _median(rates),
        "rtfx_rounds": rates,
        **accuracy([(utterances[item.index], item.answer or "") for item in once]),
        "latency_ms": latency_ms([item.latency_s for found in answered for item in found]),
        "p50_ms_rounds": p50_ms,
        "latencies": sum(map(len, answered)),
        "cpu_s_per_audio_s": _cpu(rounds, sum(audio_s)),
        "calls_per_request": round(sum(item["calls"] for item in first.stages.values()), 3),
        "stages": _mean_stages(rounds),
        "audio_s": round(audio_s[0], 3),
        "requests": len(first.load.outcomes),
        "errors": len(failed),
        "error_messages": sorted({item.error for item in failed}),
    }


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(statistics.median(known), 4) if known else None


def _cpu(rounds: Sequence[SystemRun], audio_s: float) -> dict[str, float]:
    """Return CPU seconds per second of audio by process; `total` is without the client."""
    if not audio_s:
        return {}
    names = dict.fromkeys(name for run in rounds for name in run.cpu_s)
    found = {name: sum(run.cpu_s.get(name, 0.0) for run in rounds) / audio_s for name in names}
    total = sum(value for name, value in found.items() if name != CLIENT)
    return {name: round(value, 5) for name, value in {**found, "total": total}.items()}


def _orchestration_share(system: System, rounds: Sequence[SystemRun]) -> float | None:
    """Return the fraction of a server's CPU that is not spent in components' processes."""
    if system.kind != "served":
        return None
    cpu_s: dict[str, float] = {}
    for run in rounds:
        for name, seconds in run.cpu_s.items():
            if name != CLIENT:
                cpu_s[name] = cpu_s.get(name, 0.0) + seconds
    return share_of(cpu_s, (system.models[0], "tritonserver"))


def _median_by_process(rounds: Sequence[Mapping[str, float]]) -> dict[str, float]:
    names = dict.fromkeys(name for found in rounds for name in found)
    return {
        name: round(statistics.median(found.get(name, 0.0) for found in rounds), 1)
        for name in names
    }


def _mean_stages(rounds: Sequence[SystemRun]) -> dict[str, dict[str, float]]:
    return {
        component: {
            name: round(statistics.fmean(run.stages[component][name] for run in rounds), 3)
            for name in first
        }
        for component, first in rounds[0].stages.items()
    }


def ratios(found: Mapping[str, Mapping[str, Any]], ours: str) -> dict[str, dict[str, Any]]:
    """Return, of `ours` to each other system on the same road, medians of the rounds' ratios.

    Args:
        found: figures by system, see `system_figures`.
        ours: name of Conch's system.
    """
    if ours not in found:
        return {}
    has_vad = found[ours]["options"].get("vad", True)
    others = [
        name
        for name, item in found.items()
        if (item["models"][:1] != ["speech"] or item["settings"]) and _without_vad(item) != has_vad
    ]
    return {f"{ours} / {name}": _ratio(found[ours], found[name]) for name in others}


def _without_vad(figures: Mapping[str, Any]) -> bool:
    return bool(figures["models"]) and "vad" not in figures["models"]


def _ratio(ours: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    by_title = {item["title"]: item for item in other["runs"]}
    loads = []
    for own in ours["runs"]:
        their = by_title.get(own["title"])
        if their is None:
            continue
        cpu = own["cpu_s_per_audio_s"].get("total"), their["cpu_s_per_audio_s"].get("total")
        loads.append(
            {
                "title": own["title"],
                "load": own["load"],
                "concurrency": own["concurrency"],
                "rtfx": _median_ratio(own["rtfx_rounds"], their["rtfx_rounds"]),
                "p50": _median_ratio(own["p50_ms_rounds"], their["p50_ms_rounds"]),
                "p99": _p99_ratio(own, their),
                "cpu": round(cpu[0] / cpu[1], 4) if cpu[0] and cpu[1] else None,
            }
        )
    memory = _median_ratio(ours["peak_memory_mb_rounds"], other["peak_memory_mb_rounds"])
    return {
        "loads": loads,
        "memory": memory,
        "orchestrator_memory": _median_ratio(_entry_mb(ours), _entry_mb(other)),
    }


def _entry_mb(figures: Mapping[str, Any]) -> list[float | None]:
    """Return by round the memory of the processes of the model that is asked, where it is one."""
    rounds: Sequence[Mapping[str, float]] = figures["memory_by_process_mb_rounds"]
    return [found.get(next(iter(figures["models"]), "")) for found in rounds]


def _p99_ratio(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> float | None:
    if min(ours["latencies"], theirs["latencies"]) < LEAST_FOR_P99:
        return None
    ratio: float = ours["latency_ms"]["p99"] / theirs["latency_ms"]["p99"]
    return round(ratio, 4)


def _median_ratio(ours: Sequence[float | None], theirs: Sequence[float | None]) -> float | None:
    return _median([a / b for a, b in zip(ours, theirs, strict=True) if a and b])
