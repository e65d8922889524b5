"""Known voices: how often a name is right, missing or a stranger's, by the threshold.

Half of the speakers are enrolled, the others are strangers. Enrolments and queries have utterances
of their own.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conch.bench.header import Flat, Header, origin
from conch.bench.load import progress
from conch.bench.servers import triton_version
from conch.cli.server import server_url
from conch.component import SAMPLE_RATE
from conch.scoring.error_rates import percent
from conch.wire.errors import BenchError
from conch.wire.known_speakers import embedding_of
from conch.wire.result import Transcript
from lab.command import lab_header
from lab.reports import page, table_of
from lab.served import answers, sample_of
from lab.speakers.conversations import (
    CONDITIONS,
    Condition,
    Source,
    loud_span,
    read_sources,
    spoken_through,
)
from lab.waveforms import waveform_of

ENROLMENT_S, QUERIES_S, QUERIES = 8.0, (1.5, 3.0), 6
"""Seconds of an enrolment and of queries, and the queries of a speaker."""
NEEDED_S = 45.0
"""Seconds of a speaker who is taken."""
THRESHOLDS = tuple(np.arange(40, 86) / 100)
SHOWN = {"clean": (0.4, 0.46, 0.5, 0.54, 0.6), "telephone": (0.5, 0.7, 0.74, 0.78, 0.81)}
"""Thresholds in the tables."""
OPTIONS: Mapping[str, Any] = {"decoder": "none", "speakers": 1, "speaker_embeddings": True}
AT_ONCE = 2

Waveform = NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownBenchmark:
    manifest: Path
    splits: tuple[str, ...] = ("dev", "train_extra")
    people: int = 40
    """Speakers; every second one is enrolled."""
    conditions: tuple[Condition, ...] = CONDITIONS
    seed: int = 7
    url: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NameShares:
    """What becomes of queries at a threshold; shares of those of enrolled people, and of others."""

    condition: Condition
    query_s: float
    threshold: float
    queries: int
    right: float
    wrong: float
    unknown: float
    strangers_named: float
    """Share of the strangers' queries that get a name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownReport:
    header: Flat[Header]
    audio_s: float
    runs: Sequence[NameShares]


@dataclass(frozen=True, slots=True)
class Person:
    name: str
    enrolment: Waveform
    queries: Sequence[Waveform]


def run(benchmark: KnownBenchmark) -> KnownReport:
    people = _people(benchmark)
    known = people[::2]
    header = lab_header("speakers", benchmark)
    runs: list[NameShares] = []
    with (
        server_url(benchmark.url, [OPTIONS]) as url,
        progress("conditions", len(benchmark.conditions)) as bar,
    ):
        header = header.with_triton(triton_version(url))
        for condition in benchmark.conditions:
            random = np.random.default_rng([benchmark.seed, CONDITIONS.index(condition)])
            enrolments = [
                sample_of(*spoken_through(item.enrolment, condition, random)) for item in known
            ]
            sounds = np.array(
                [_sound(answer) for answer in answers(url, enrolments, OPTIONS, AT_ONCE)]
            )
            for seconds in QUERIES_S:
                length = round(seconds * SAMPLE_RATE)
                spoken_queries = [
                    (item.name, sample_of(*spoken_through(query[:length], condition, random)))
                    for item in people
                    for query in item.queries
                ]
                transcripts = answers(url, [query for _, query in spoken_queries], OPTIONS, AT_ONCE)
                cosines = [
                    sounds @ _sound(item) if item.speakers else np.zeros(len(sounds))
                    for item in transcripts
                ]
                spoken = [name for name, _ in spoken_queries]
                names = [item.name for item in known]
                runs += shares(condition, seconds, spoken, names, np.array(cosines))
            bar.update()
    queries_s = sum(item.query_s * item.queries for item in runs if item.threshold == THRESHOLDS[0])
    return KnownReport(header=header, audio_s=round(queries_s, 1), runs=runs)


def shares(
    condition: Condition,
    seconds: float,
    spoken: Sequence[str],
    known: Sequence[str],
    cosines: NDArray[np.float32],
) -> list[NameShares]:
    """Return what becomes of queries, `spoken` by whom, at each threshold.

    `cosines` are those of each query and each of the `known` people.
    """
    best, nearest = cosines.max(axis=1), cosines.argmax(axis=1)
    is_known = np.array([who in known for who in spoken])
    is_own = np.array([known[index] == who for index, who in zip(nearest, spoken, strict=True)])
    by_threshold = []
    for threshold in THRESHOLDS:
        is_named = best >= threshold
        by_threshold.append(
            NameShares(
                condition=condition,
                query_s=seconds,
                threshold=float(threshold),
                queries=len(spoken),
                right=round(float((is_named & is_own)[is_known].mean()), 4),
                wrong=round(float((is_named & ~is_own)[is_known].mean()), 4),
                unknown=round(float((~is_named)[is_known].mean()), 4),
                strangers_named=round(float(is_named[~is_known].mean()), 4),
            )
        )
    return by_threshold


def _people(benchmark: KnownBenchmark) -> list[Person]:
    by_speaker: dict[str, list[Source]] = defaultdict(list)
    for split in benchmark.splits:
        for source in read_sources(benchmark.manifest, split):
            by_speaker[source.speaker].append(source)
    fitting = sorted(
        who for who, said in by_speaker.items() if sum(x.duration_s for x in said) >= NEEDED_S
    )
    if len(fitting) < benchmark.people:
        raise BenchError(f"{benchmark.people} speakers are asked for, and there are {len(fitting)}")
    random = np.random.default_rng(benchmark.seed)
    return [
        _person(str(who), by_speaker[str(who)])
        for who in random.choice(fitting, benchmark.people, replace=False)
    ]


def _person(name: str, sources: Sequence[Source]) -> Person:
    left = [*sources]

    def said(seconds: float) -> Waveform:
        parts: list[Waveform] = []
        while left and sum(map(len, parts)) < seconds * SAMPLE_RATE:
            waveform = waveform_of(left.pop(0).path)
            first, behind = loud_span(waveform)
            parts.append(waveform[first:behind])
        return np.concatenate(parts)[: round(seconds * SAMPLE_RATE)]

    enrolment = said(ENROLMENT_S)
    # The queries of the notes are of this half.
    del left[len(left) // 2 :]
    queries: list[Waveform] = []
    while left and len(queries) < QUERIES:
        if len(query := said(max(QUERIES_S))) == round(max(QUERIES_S) * SAMPLE_RATE):
            queries.append(query)
    return Person(name, enrolment, queries)


def _sound(transcript: Transcript) -> Waveform:
    return embedding_of(str(transcript.speakers[0].embedding))


def markdown(report: KnownReport) -> str:
    shown = table_of(
        [
            item
            for item in report.runs
            if item.threshold in SHOWN.get(item.condition, SHOWN["clean"])
        ],
        (
            ("condition", lambda item: item.condition),
            ("query s", lambda item: f"{item.query_s:g}"),
            ("threshold", lambda item: f"{item.threshold:.2f}"),
            ("right %", lambda item: percent(item.right)),
            ("wrong %", lambda item: percent(item.wrong)),
            ("unknown %", lambda item: percent(item.unknown)),
            ("strangers named %", lambda item: percent(item.strangers_named)),
        ),
    )
    count = sum(item.queries for item in report.runs if item.threshold == THRESHOLDS[0])
    return page(report.header, shown, origin(report.header, f"{count} queries", report.audio_s))
