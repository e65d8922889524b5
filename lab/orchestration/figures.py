"""The figures of `python -m lab orchestration`, from its rounds."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from conch.bench.figures import Latency, latency_ms, rtfx
from conch.bench.header import Flat
from conch.bench.load import Offer
from conch.scoring.error_rates import Accuracy, accuracy, word_errors
from conch.scoring.manifest import ManifestEntry
from lab.orchestration.in_process import SystemRun
from lab.orchestration.systems import CLIENT, Clip, Measured, System
from lab.served import ServedStage, share_of


@dataclass(slots=True)
class Rounds:
    system: System
    measured: list[Measured] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadFigures:
    """The figures of one system under one load, over all rounds."""

    title: str
    offered: Flat[Offer]
    rtfx: float | None
    """Median of the rounds."""
    rtfx_rounds: Sequence[float | None]
    accuracy: Flat[Accuracy]
    """Accuracy in the first round, each recording once."""
    latency_ms: Latency
    """Of the requests of all rounds."""
    p50_ms_rounds: Sequence[float | None]
    latencies: int
    """Number of latencies behind `latency_ms`."""
    cpu_s_per_audio_s: Mapping[str, float]
    """CPU by process; `total` is without `client`. Empty if nothing was answered."""
    calls_per_request: float
    stages: Mapping[str, ServedStage]
    audio_s: float
    """Of the first round."""
    requests: int
    """Of the first round."""
    errors: int
    """Errors of all rounds."""
    error_messages: Sequence[str]
    orchestration_share: float | None
    """Fraction of the server's CPU outside the components' processes; None without a
    server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemFigures:
    runtime: str
    models: Sequence[str]
    settings: Sequence[str]
    options: Mapping[str, Any]
    """Options of the requests to `speech`."""
    runs: Sequence[LoadFigures]
    peak_memory_mb: float
    """The median of the rounds, as in `memory_by_process_mb`."""
    peak_memory_mb_rounds: Sequence[float]
    memory_by_process_mb: Mapping[str, float]
    memory_by_process_mb_rounds: Sequence[Mapping[str, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadRatio:
    """Medians of the rounds' ratios under one load."""

    title: str
    rtfx: float | None
    p50: float | None
    cpu: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    loads: Sequence[LoadRatio]
    memory: float | None
    orchestrator_memory: float | None
    """Ratio of the memory of `speech` to that of its counterpart."""


def system_figures(
    rounds: Rounds, utterances: Sequence[ManifestEntry], clips: Sequence[Clip]
) -> SystemFigures:
    memory = [item.memory for item in rounds.measured]
    system = rounds.system
    by_offer: dict[Offer, list[SystemRun]] = {}
    for item in rounds.measured:
        for one in item.runs:
            by_offer.setdefault(one.offered, []).append(one)
    return SystemFigures(
        runtime=system.runtime,
        models=list(system.models),
        settings=list(map(str, system.settings)),
        options=dict(system.options),
        runs=[
            _load_figures(system, same_load, utterances, clips) for same_load in by_offer.values()
        ],
        peak_memory_mb=round(statistics.median(item.total_mb for item in memory), 1),
        peak_memory_mb_rounds=[item.total_mb for item in memory],
        memory_by_process_mb=_median_by_process([item.by_process_mb for item in memory]),
        memory_by_process_mb_rounds=[item.by_process_mb for item in memory],
    )


def _load_figures(
    system: System,
    rounds: Sequence[SystemRun],
    utterances: Sequence[ManifestEntry],
    clips: Sequence[Clip],
) -> LoadFigures:
    first = rounds[0]
    answered = [[item for item in run.load.outcomes if item.answer is not None] for run in rounds]
    audio_s = [
        sum(clips[item.index % len(clips)].duration_s for item in one_round)
        for one_round in answered
    ]
    # Each recording once: otherwise those sent more often would count more.
    once = [item for item in answered[0] if item.index < len(clips)]
    errors = [
        (utterance.source, word_errors(utterance.text, item.answer or ""))
        for item in once
        for utterance in [utterances[item.index]]
    ]
    rates = [rtfx(*pair) for pair in zip(audio_s, (run.load.wall_s for run in rounds), strict=True)]
    p50_ms = [latency_ms([item.latency_s for item in one_round]).p50 for one_round in answered]
    failed = [item for run in rounds for item in run.load.outcomes if item.answer is None]
    return LoadFigures(
        title=first.offered.title,
        offered=first.offered,
        rtfx=_median(rates),
        rtfx_rounds=rates,
        accuracy=accuracy(errors),
        latency_ms=latency_ms([item.latency_s for one_round in answered for item in one_round]),
        p50_ms_rounds=p50_ms,
        latencies=sum(map(len, answered)),
        cpu_s_per_audio_s=_cpu(rounds, sum(audio_s)),
        calls_per_request=round(sum(item.calls for item in first.stages.values()), 3),
        stages=_mean_stages(rounds),
        audio_s=round(audio_s[0], 3),
        requests=len(first.load.outcomes),
        errors=len(failed),
        error_messages=sorted({item.error for item in failed}),
        orchestration_share=_orchestration_share(system, rounds),
    )


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(statistics.median(known), 4) if known else None


def _cpu(rounds: Sequence[SystemRun], audio_s: float) -> dict[str, float]:
    """Return CPU seconds per second of audio by process; `total` is without the client."""
    if not audio_s:
        return {}
    names = dict.fromkeys(name for run in rounds for name in run.cpu_s)
    mean_s = {name: sum(run.cpu_s.get(name, 0.0) for run in rounds) / audio_s for name in names}
    total = sum(value for name, value in mean_s.items() if name != CLIENT)
    return {name: round(value, 5) for name, value in {**mean_s, "total": total}.items()}


def _orchestration_share(system: System, rounds: Sequence[SystemRun]) -> float | None:
    """Return the share of a server's CPU that is not spent in processes of components."""
    if system.runtime != "served":
        return None
    cpu_s: dict[str, float] = {}
    for run in rounds:
        for name, seconds in run.cpu_s.items():
            if name != CLIENT:
                cpu_s[name] = cpu_s.get(name, 0.0) + seconds
    return share_of(cpu_s, (system.models[0], "tritonserver"))


def _median_by_process(rounds: Sequence[Mapping[str, float]]) -> dict[str, float]:
    names = dict.fromkeys(name for memory in rounds for name in memory)
    return {
        name: round(statistics.median(memory.get(name, 0.0) for memory in rounds), 1)
        for name in names
    }


def _mean_stages(rounds: Sequence[SystemRun]) -> dict[str, ServedStage]:
    means = {}
    for component in rounds[0].stages:
        stages = [run.stages[component] for run in rounds]
        means[component] = ServedStage(
            round(statistics.fmean(stage.calls for stage in stages), 3),
            round(statistics.fmean(stage.queue_ms for stage in stages), 3),
            round(statistics.fmean(stage.compute_ms for stage in stages), 3),
        )
    return means


def ratios(systems: Mapping[str, SystemFigures], ours: str) -> dict[str, Ratio]:
    """Return, of `ours` to each other system on the same path, medians of the rounds' ratios."""
    if ours not in systems:
        return {}
    has_vad = systems[ours].options.get("vad", True)
    others = [
        name
        for name, item in systems.items()
        if (item.models[:1] != ["speech"] or item.settings) and _without_vad(item) != has_vad
    ]
    return {f"{ours} / {name}": _ratio(systems[ours], systems[name]) for name in others}


def _without_vad(figures: SystemFigures) -> bool:
    return bool(figures.models) and "vad" not in figures.models


def _ratio(ours: SystemFigures, other: SystemFigures) -> Ratio:
    by_title = {item.title: item for item in other.runs}
    return Ratio(
        loads=[_load_ratio(own, by_title[own.title]) for own in ours.runs if own.title in by_title],
        memory=_median_ratio(ours.peak_memory_mb_rounds, other.peak_memory_mb_rounds),
        orchestrator_memory=_median_ratio(_entry_mb(ours), _entry_mb(other)),
    )


def _load_ratio(own: LoadFigures, their: LoadFigures) -> LoadRatio:
    cpu = own.cpu_s_per_audio_s.get("total"), their.cpu_s_per_audio_s.get("total")
    return LoadRatio(
        title=own.title,
        rtfx=_median_ratio(own.rtfx_rounds, their.rtfx_rounds),
        p50=_median_ratio(own.p50_ms_rounds, their.p50_ms_rounds),
        cpu=round(cpu[0] / cpu[1], 4) if cpu[0] and cpu[1] else None,
    )


def _entry_mb(figures: SystemFigures) -> list[float | None]:
    entry = next(iter(figures.models), "")
    return [memory.get(entry) for memory in figures.memory_by_process_mb_rounds]


def _median_ratio(ours: Sequence[float | None], theirs: Sequence[float | None]) -> float | None:
    return _median([a / b for a, b in zip(ours, theirs, strict=True) if a and b])
