"""`python -m lab orchestration`: one path, run by Conch and by all alternatives.

Systems over the same weights and the same recordings, each started, measured and stopped in turn;
a round goes through all of them, each from another one on, and there are `runs` rounds, so that a
machine that is slower for a while is so for all. A load goes through the recordings in turn, until
each was sent once and each client of a closed loop could send four. Ratios are taken within a
round, and their median counts. Paced loads are in the first round only.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from conch.bench.header import Flat, Header
from conch.bench.load import Offer, progress
from conch.bench.samples import Choice
from conch.scoring import COMPARING, require
from conch.scoring.manifest import ManifestEntry
from conch.wire.errors import BenchError
from lab.command import lab_header
from lab.model_repository import repository_of
from lab.orchestration import in_process
from lab.orchestration.figures import Ratio, Rounds, SystemFigures, ratios, system_figures
from lab.orchestration.systems import CONCH, CONCH_NO_VAD, ENSEMBLE, Clip, System, blocking, measure
from lab.settings import INSTANCES, Setting
from lab.turns import requests_of, rotated
from lab.waveforms import waveform_of

PATH = ("vad", "attention_encoder", "attention_decoder")
ALIKE: Mapping[str, Any] = {"coverage": False}
"""Options of Conch's requests: the others do not hold a text against the speech."""
LONGEST_S = 25.0
"""`max_segment_s`: a longer recording would be cut in two by `speech`, but not by an ensemble."""


def systems(instances: Sequence[int], varied: Sequence[tuple[Setting, ...]] = ()) -> list[System]:
    served = partial(System, runtime="served", has_paced=True)
    conch = partial(served, models=("speech", *PATH), options=ALIKE)
    without_vad = partial(System, runtime="served")
    no_vad = {**ALIKE, "vad": False}
    return [
        conch(name=CONCH),
        *(conch(name=_varied_name(settings), settings=settings) for settings in varied),
        System(
            name=in_process.NAME, runtime="in process", models=PATH, options=ALIKE, has_paced=True
        ),
        *(
            served(
                name=blocking(count),
                models=("speech_blocking", *PATH),
                settings=(Setting("speech_blocking", INSTANCES, str(count)),),
            )
            for count in instances
        ),
        without_vad(name=CONCH_NO_VAD, models=("speech", *PATH[1:]), options=no_vad),
        without_vad(name=ENSEMBLE, models=("attention_ensemble", *PATH[1:])),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class OrchestrationBenchmark(Choice):
    concurrency: Sequence[int] = (1, 4, 8)
    rates: Sequence[float] = ()
    instances: Sequence[int] = (1, 4, 8)
    only: Sequence[str] = ()
    varied: Sequence[tuple[Setting, ...]] = ()
    """Settings of Conch's models to measure too; those of a tuple apply together."""
    runs: int = 3
    warmup: int = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class OrchestrationReport:
    header: Flat[Header]
    utterances: int
    audio_s: float
    systems: Mapping[str, SystemFigures]
    ratios: Mapping[str, Ratio]
    """Of Conch to each other system."""


def run(benchmark: OrchestrationBenchmark) -> OrchestrationReport:
    require(*COMPARING)
    closed = [Offer(concurrency=count) for count in benchmark.concurrency]
    paced = [Offer(rate=rate) for rate in benchmark.rates]
    compared = _chosen_systems(benchmark, closed + paced)
    header = lab_header("orchestration", benchmark)
    utterances, clips = _clips(benchmark)
    rounds = {system.name: Rounds(system) for system in compared}
    for number in range(benchmark.runs):
        # A paced load takes the same time for every system: measure it once.
        offers = closed if number else closed + paced
        for name in rotated(list(rounds), number):
            item = rounds[name]
            taken = [offered for offered in offers if item.system.takes(offered)]
            requests = sum(requests_of(offered, len(clips)) for offered in taken)
            with progress(f"round {number + 1}, {name}", requests) as bar:
                measured = measure(item.system, clips, offers, benchmark.warmup, bar.update)
                item.measured.append(measured)
    served = [m.triton_version for item in rounds.values() for m in item.measured]
    by_name = {name: system_figures(item, utterances, clips) for name, item in rounds.items()}
    return OrchestrationReport(
        header=header.with_triton(next(filter(None, served), "not measured")),
        utterances=len(clips),
        audio_s=round(sum(clip.duration_s for clip in clips), 3),
        systems=by_name,
        ratios=ratios(by_name, CONCH) | ratios(by_name, CONCH_NO_VAD),
    )


def _varied_name(settings: Sequence[Setting]) -> str:
    return f"{CONCH}, {', '.join(map(str, settings))}"


def _chosen_systems(benchmark: OrchestrationBenchmark, offers: Sequence[Offer]) -> list[System]:
    known = systems(benchmark.instances, benchmark.varied)
    names = [system.name for system in known]
    unknown = [name for name in benchmark.only if name not in names]
    if unknown:
        raise BenchError(f"no system {', '.join(unknown)}; the systems are {'; '.join(names)}")
    wanted = {*benchmark.only, *map(_varied_name, benchmark.varied)} if benchmark.only else names
    compared = [
        system for system in known if system.name in wanted and any(map(system.takes, offers))
    ]
    if not compared:
        raise BenchError(f"no system takes one of the loads {', '.join(o.title for o in offers)}")
    for system in compared:
        if system.settings:
            # Report a wrong name now, not when the system's turn comes.
            with repository_of(system.models, system.settings):
                pass
    return compared


def _clips(benchmark: OrchestrationBenchmark) -> tuple[list[ManifestEntry], list[Clip]]:
    utterances, clips = [], []
    for utterance in benchmark.utterances():
        clip = Clip(utterance.path, waveform_of(utterance.path))
        if clip.duration_s <= LONGEST_S:
            utterances.append(utterance)
            clips.append(clip)
    if not clips:
        raise BenchError(f"every recording is longer than {LONGEST_S:g} s")
    return utterances, clips
