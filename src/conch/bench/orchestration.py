"""`conch bench orchestration`: one road, run by Conch and by everything that it could be run by.

Systems over the same weights and the same recordings, each started, measured and stopped in turn;
a round goes through all of them, and there are `runs` rounds, so that a machine that is slower for
a while is so for all. Ratios are taken within a round, and their median counts. The report is one
JSON object: the header of an offline report, and

    systems     by name: `kind`, `models`, `instances`, `options`, `peak_memory_mb` and
                `memory_by_process_mb` (medians over rounds; the latter of the first round), and
                `runs`, a list with, for each load,
                    load, concurrency, rate, title
                    rtfx, rtfx_rounds           the median, and each round's
                    wer                         of the first round
                    latency_ms                  percentiles over the requests of all rounds
                    p50_ms_rounds, p99_ms_rounds
                    cpu_s_per_audio_s           by process, `client` apart, `total` without it
                    calls_per_request
                    stages                      by component: calls, queue_ms and compute_ms of a
                                                request
                    errors, error_messages, utterances, audio_s
    ratios      of Conch to each other system: `load`, `rtfx`, `p50`, `p99`, `cpu`, `memory`,
                `orchestrator_memory` (of the processes of `speech` and of its counterpart)
    bytes_per_request
                of the tensors of a request's calls, by component, with `total`
    bls_call    see `conch.bench.hops`; null with `--no-extras`
    added       see `conch.bench.added`; null with `--no-extras`
    goals       see `conch.bench.goals`
"""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conch.bench import added, baseline, goals, hops, in_process, require
from conch.bench.figures import accuracy
from conch.bench.load import Offer
from conch.bench.manifest import Utterance, chosen
from conch.bench.measures import latency_ms, rtfx
from conch.bench.offline import header, progress
from conch.bench.recordings import decode
from conch.bench.systems import CLIENT, Clip, Measured, System, SystemRun, measure
from conch.errors import BenchError
from conch.segmentation import SAMPLE_RATE

ROAD = ("vad", "attention_encoder", "attention_decoder")
CONCH = "conch"
CONCH_NO_VAD = "conch, no VAD"
ENSEMBLE = "ensemble, no VAD"
UNBATCHED = f"{in_process.NAME}, unbatched"

LONGEST_S = 25.0
"""`max_segment_s`: a longer recording would be cut in two by `speech`, but not by an ensemble."""


def blocking(instances: int) -> str:
    """Return the name of the blocking BLS model with so many instances."""
    return f"blocking x{instances}"


def systems(instances: Sequence[int]) -> list[System]:
    """Return what is compared; `instances` are those of the blocking model."""
    blocking_models = ("speech_blocking", *ROAD)
    return [
        System(name=CONCH, kind="served", models=("speech", *ROAD)),
        System(name=in_process.NAME, kind="in process", models=ROAD),
        System(name=UNBATCHED, kind="in process, unbatched", models=ROAD),
        *(
            System(name=blocking(count), kind="served", models=blocking_models, instances=count)
            for count in instances
        ),
        System(
            name=CONCH_NO_VAD,
            kind="served",
            models=("speech", *ROAD[1:]),
            options={"vad": False},
        ),
        System(name=ENSEMBLE, kind="served", models=("attention_ensemble", *ROAD[1:])),
        System(name=baseline.NAME, kind="faster-whisper", models=()),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class OrchestrationBenchmark:
    """What is measured, and how; fields that are not told here are as in `OfflineBenchmark`."""

    manifest: Path
    split: str | None = None
    source: str | None = None
    limit: int | None = None
    concurrency: Sequence[int] = (1, 4, 8)
    rates: Sequence[float] = ()
    instances: Sequence[int] = (1, 4, 8)
    """Of the blocking BLS model; a system for each."""
    only: Sequence[str] = ()
    """Names of the systems to measure; none is all."""
    runs: int = 3
    """Rounds."""
    warmup: int = 8
    extras: bool = True
    """Whether to measure a BLS call and the time added to an utterance of five seconds as well."""


@dataclass(slots=True)
class _Rounds:
    """What came of one system."""

    system: System
    measured: list[Measured] = field(default_factory=list)


def run(benchmark: OrchestrationBenchmark) -> dict[str, Any]:
    """Measure and return the report.

    Raises:
        BenchError: the manifest, an audio file or a package is missing, or a baseline ended early.
        ServerError: a server cannot be started.
    """
    require("jiwer", "whisper_normalizer")
    compared = _chosen_systems(benchmark)
    if any(system.kind == "faster-whisper" for system in compared):
        require("faster_whisper")
    report = header("orchestration", benchmark)
    utterances, clips = _clips(benchmark)
    offers = [Offer(concurrency=count) for count in benchmark.concurrency]
    offers += [Offer(rate=rate) for rate in benchmark.rates]
    rounds = {system.name: _Rounds(system) for system in compared}
    for number in range(benchmark.runs):
        for name, item in rounds.items():
            requests = sum(item.system.takes(offered) for offered in offers) * len(clips)
            with progress(f"round {number + 1}, {name}", requests) as bar:
                item.measured.append(
                    measure(
                        item.system,
                        clips,
                        offers,
                        warmup=benchmark.warmup,
                        on_answer=_ticks(bar),
                    )
                )
    served = [m.triton_version for item in rounds.values() for m in item.measured]
    report["versions"]["triton"] = next(filter(None, served), "not measured")
    found = {name: system_figures(item, utterances, clips) for name, item in rounds.items()}
    report |= {
        "concurrency": list(benchmark.concurrency),
        "rates": list(benchmark.rates),
        "utterances": len(clips),
        "audio_s": round(sum(map(_duration_s, clips)), 3),
        "systems": found,
        "ratios": ratios(found, CONCH) | ratios(found, CONCH_NO_VAD),
        "bytes_per_request": _bytes_per_request(rounds),
        "bls_call": hops.measure() if benchmark.extras else None,
        "added": added.measure(clips) if benchmark.extras else None,
    }
    return {**report, "goals": goals.offline(report)}


def _ticks(bar: Any) -> Callable[[], None]:
    def tick() -> None:
        bar.update()

    return tick


def _chosen_systems(benchmark: OrchestrationBenchmark) -> list[System]:
    known = systems(benchmark.instances)
    names = [system.name for system in known]
    unknown = [name for name in benchmark.only if name not in names]
    if unknown:
        raise BenchError(f"no system {', '.join(unknown)}; the systems are {'; '.join(names)}")
    return [system for system in known if not benchmark.only or system.name in benchmark.only]


def _clips(benchmark: OrchestrationBenchmark) -> tuple[list[Utterance], list[Clip]]:
    utterances, clips = [], []
    for utterance in chosen(benchmark):
        clip = Clip(utterance.path, decode(utterance.path).resampled(SAMPLE_RATE))
        if _duration_s(clip) <= LONGEST_S:
            utterances.append(utterance)
            clips.append(clip)
    if not clips:
        raise BenchError(f"every recording is longer than {LONGEST_S:g} s")
    return utterances, clips


def _duration_s(clip: Clip) -> float:
    return len(clip.waveform) / SAMPLE_RATE


def system_figures(
    rounds: _Rounds, utterances: Sequence[Utterance], clips: Sequence[Clip]
) -> dict[str, Any]:
    """Return what all rounds of one system say; see the module."""
    memory = [item.memory for item in rounds.measured]
    loads = zip(*(item.runs for item in rounds.measured), strict=True)
    system = rounds.system
    return {
        "kind": system.kind,
        "models": list(system.models),
        "instances": system.instances,
        "options": dict(system.options),
        "runs": [_run_figures(list(runs), utterances, clips) for runs in loads],
        "peak_memory_mb": round(statistics.median(item.total_mb for item in memory), 1),
        "peak_memory_mb_rounds": [item.total_mb for item in memory],
        "memory_by_process_mb": memory[0].by_process_mb,
    }


def _run_figures(
    rounds: Sequence[SystemRun], utterances: Sequence[Utterance], clips: Sequence[Clip]
) -> dict[str, Any]:
    first = rounds[0]
    answered = [[item for item in run.load.outcomes if item.answer is not None] for run in rounds]
    audio_s = [sum(_duration_s(clips[item.index]) for item in found) for found in answered]
    rates = [rtfx(*pair) for pair in zip(audio_s, (run.load.wall_s for run in rounds), strict=True)]
    latencies = [latency_ms([item.latency_s for item in found]) for found in answered]
    failed = [item for run in rounds for item in run.load.outcomes if item.answer is None]
    return {
        "title": first.offered.title,
        "load": first.offered.load,
        "concurrency": first.offered.concurrency,
        "rate": first.offered.rate,
        "rtfx": _median(rates),
        "rtfx_rounds": rates,
        **accuracy([(utterances[item.index], item.answer or "") for item in answered[0]]),
        "latency_ms": latency_ms([item.latency_s for found in answered for item in found]),
        "p50_ms_rounds": [item["p50"] for item in latencies],
        "p99_ms_rounds": [item["p99"] for item in latencies],
        "cpu_s_per_audio_s": _cpu(rounds, sum(audio_s)),
        "calls_per_request": round(sum(item["calls"] for item in first.stages.values()), 3),
        "stages": _mean_stages(rounds),
        "audio_s": round(audio_s[0], 3),
        "utterances": len(first.load.outcomes),
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
    own_options = found[ours]["options"]
    others = [
        name
        for name, item in found.items()
        if name not in (CONCH, CONCH_NO_VAD) and (name == ENSEMBLE) == bool(own_options)
    ]
    return {f"{ours} / {name}": _ratio(found[ours], found[name]) for name in others}


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
                "p99": _median_ratio(own["p99_ms_rounds"], their["p99_ms_rounds"]),
                "cpu": round(cpu[0] / cpu[1], 4) if cpu[0] and cpu[1] else None,
            }
        )
    memory = _median_ratio(ours["peak_memory_mb_rounds"], other["peak_memory_mb_rounds"])
    entry_mb = [_entry_mb(item) for item in (ours, other)]
    return {
        "loads": loads,
        "memory": memory,
        "orchestrator_memory": (
            round(entry_mb[0] / entry_mb[1], 4) if entry_mb[0] and entry_mb[1] else None
        ),
    }


def _entry_mb(figures: Mapping[str, Any]) -> float | None:
    """Return the memory of the processes of the model that is asked, where it is one."""
    if not figures["models"]:
        return None
    memory: Mapping[str, float] = figures["memory_by_process_mb"]
    return memory.get(figures["models"][0])


def _median_ratio(ours: Sequence[float | None], theirs: Sequence[float | None]) -> float | None:
    return _median([a / b for a, b in zip(ours, theirs, strict=True) if a and b])


def _bytes_per_request(rounds: Mapping[str, _Rounds]) -> dict[str, float] | None:
    """Return the tensors' bytes by component; the road is the same, in process or served."""
    for name in (in_process.NAME, UNBATCHED):
        if name in rounds:
            by_call = rounds[name].measured[0].runs[0].bytes_by_call
            return {**by_call, "total": sum(by_call.values())}
    return None
