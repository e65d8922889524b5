"""Known voices: how often a name is right, missing or a stranger's, by the threshold.

Half of the speakers are enrolled, the others are strangers. Enrolments, queries and conversations
have utterances of their own.
"""

import asyncio
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from conch.bench.header import Flat, Header
from conch.bench.load import closed_loop, progress
from conch.bench.report import origin
from conch.bench.servers import triton_version
from conch.bench.turns import activity, edges_of, speakers_of
from conch.cli.own_server import server_url
from conch.client import AsyncClient
from conch.component.waveform import SAMPLE_RATE
from conch.families.silero.vad import SileroConfig, SileroVad
from conch.scoring.tables import percent, table
from conch.wire.errors import BenchError
from conch.wire.known_speakers import embedding_of, option_of
from conch.wire.result import Transcript, Turn
from lab.header import lab_header
from lab.speakers.conversations import (
    CONDITIONS,
    Condition,
    Conversation,
    Source,
    conversation,
    loud_span,
    read_sources,
    spoken_through,
)
from lab.speakers.live import Networks
from lab.speakers.turns import naming
from lab.waveforms import waveform_of

ENROLMENT_S, QUERIES_S, QUERIES = 8.0, (1.5, 3.0), 6
"""Seconds of an enrolment and of queries, and the queries of a speaker."""
NEEDED_S = 45.0
"""Seconds of a speaker who is taken."""
THRESHOLDS = tuple(np.arange(40, 86) / 100)
SHOWN = {"clean": (0.4, 0.46, 0.5, 0.54, 0.6), "telephone": (0.5, 0.7, 0.74, 0.78, 0.81)}
"""Thresholds in the tables."""
ASKED: Mapping[str, Any] = {"decoder": "none", "speakers": 1, "speaker_embeddings": True}
AT_ONCE = 2
LIVE_S = 2.0


Waveform = NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownBenchmark:
    """Settings of the benchmark."""

    manifest: Path
    splits: tuple[str, ...] = ("dev", "train_extra")
    people: int = 40
    """Speakers; every second one is enrolled."""
    conditions: tuple[Condition, ...] = CONDITIONS
    conversations: int = 4
    """Of each condition, each of four people, of whom two are enrolled."""
    seconds: float = 180.0
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


class NamedShares(NamedTuple):
    """The time that has names."""

    right: float
    """Share of the speech of enrolled people that has their name."""
    wrong: float
    """Share of all speech that has the name of somebody who does not speak."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedConversations:
    """The names in conversations."""

    condition: Condition
    enrolled: int
    """Enrolled people who speak in them."""
    right: int
    """Those whose voice has their name."""
    strangers: int
    wrong: int
    """Voices with a name that is not theirs."""
    live: NamedShares
    """Of the same conversations as live streams, told LIVE_S late."""
    end: NamedShares
    """At the end of the streams."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownReport:
    """The report of the benchmark."""

    header: Flat[Header]
    audio_s: float
    runs: Sequence[NameShares]
    conversations: Sequence[NamedConversations]


@dataclass(frozen=True, slots=True)
class Person:
    """The audio of a speaker."""

    name: str
    enrolment: Waveform
    queries: Sequence[Waveform]
    sources: Sequence[Source]
    """Further utterances, for conversations."""


def run(benchmark: KnownBenchmark) -> KnownReport:
    """Measure and return the report.

    Raises:
        BenchError: the manifest or an audio file is missing, or there are too few speakers.
        ServerError: no server answers, or it cannot be started.
    """
    people = _people(benchmark)
    known, others = people[::2], people[1::2]
    header = lab_header("speakers", benchmark)
    runs: list[NameShares] = []
    named: list[NamedConversations] = []
    with (
        server_url(benchmark.url, [ASKED]) as url,
        progress("conditions", len(benchmark.conditions)) as bar,
    ):
        header = header.with_triton(triton_version(url))
        for condition in benchmark.conditions:
            random = np.random.default_rng([benchmark.seed, CONDITIONS.index(condition)])
            enrolments = [spoken_through(item.enrolment, condition, random) for item in known]
            sounds = np.array([_sound(found) for found in _answers(url, enrolments, ASKED)])
            for seconds in QUERIES_S:
                length = round(seconds * SAMPLE_RATE)
                asked = [
                    (item.name, spoken_through(query[:length], condition, random))
                    for item in people
                    for query in item.queries
                ]
                answers = _answers(url, [query for _, query in asked], ASKED)
                heard = [
                    sounds @ _sound(found) if found.speakers else np.zeros(len(sounds))
                    for found in answers
                ]
                spoken = [name for name, _ in asked]
                names = [item.name for item in known]
                runs += shares(condition, seconds, spoken, names, np.array(heard))
            made = [
                _conversation(known, others, condition, random, benchmark, place)
                for place in range(benchmark.conversations)
            ]
            named.append(_named(url, condition, known, sounds, made))
            bar.update()
    queries_s = sum(item.query_s * item.queries for item in runs if item.threshold == THRESHOLDS[0])
    made_s = len(named) * benchmark.conversations * benchmark.seconds
    return KnownReport(
        header=header, audio_s=round(queries_s + made_s, 1), runs=runs, conversations=named
    )


def _conversation(
    known: Sequence[Person],
    others: Sequence[Person],
    condition: Condition,
    random: np.random.Generator,
    benchmark: KnownBenchmark,
    place: int,
) -> Conversation:
    """Return a conversation of two people who are enrolled and two who are not."""
    chosen = [group[who] for group in (known, others) for who in random.permutation(len(group))[:2]]
    sources = [source for person in chosen for source in person.sources]
    name, seed = f"{condition}-{place}", [benchmark.seed, 4, place]
    return conversation(sources, 4, benchmark.seconds, condition, seed, name)


def _named(
    url: str,
    condition: Condition,
    known: Sequence[Person],
    sounds: NDArray[np.float32],
    made: Sequence[Conversation],
) -> NamedConversations:
    """Return how many voices of conversations have their names, if all of `known` are sent."""
    pairs = zip(known, sounds, strict=True)
    entries = [{"name": item.name, "embedding": sound} for item, sound in pairs]
    asked = {"decoder": "none", "speakers": "auto", "known_speakers": entries}
    answers = _answers(url, [(item.waveform, item.sample_rate) for item in made], asked)
    names = {person.name for person in known}
    networks, vad = Networks(), SileroVad(SileroConfig())
    live = {"speakers": "auto", "known_speakers": option_of(entries)}
    streams = [asyncio.run(networks.label(item, vad, live)) for item in made]
    turns = [item.turns for item in made]
    right = wrong = 0
    for item, transcript in zip(made, answers, strict=True):
        whose = naming(item.turns, transcript.turns)
        for label in names & {speaker.name for speaker in transcript.speakers}:
            right += whose.get(label) == label
            wrong += whose.get(label) != label
    count = 2 * len(made)
    return NamedConversations(
        condition=condition,
        enrolled=count,
        right=right,
        strangers=count,
        wrong=wrong,
        live=named_shares(names, turns, [stream.decided[LIVE_S] for stream in streams]),
        end=named_shares(names, turns, [stream.end for stream in streams]),
    )


def named_shares(
    names: Collection[str], spoken: Sequence[Sequence[Turn]], told: Sequence[Sequence[Turn]]
) -> NamedShares:
    """Return which share of conversations has its names.

    Args:
        names: Those of the enrolled people.
        spoken: Turns of each conversation.
        told: The turns that were found in it.
    """
    right = wrong = enrolled = speech = 0.0
    for theirs, ours in zip(spoken, told, strict=True):
        edges = edges_of((*theirs, *ours))
        lengths, silent = np.diff(edges), np.zeros(len(edges) - 1, bool)
        said, heard = (
            dict(zip(speakers_of(turns), activity(turns, edges), strict=True))
            for turns in (theirs, ours)
        )
        speech += sum(lengths[row].sum() for row in said.values())
        for name in names & said.keys():
            enrolled += lengths[said[name]].sum()
            right += lengths[said[name] & heard.get(name, silent)].sum()
        for name in names & heard.keys():
            wrong += lengths[heard[name] & ~said.get(name, silent)].sum()
    return NamedShares(round(float(right / enrolled), 4), round(float(wrong / speech), 4))


def shares(
    condition: Condition,
    seconds: float,
    spoken: Sequence[str],
    known: Sequence[str],
    cosines: NDArray[np.float32],
) -> list[NameShares]:
    """Return what becomes of queries at each threshold.

    Args:
        spoken: Who says each query.
        known: The enrolled people.
        cosines: `[queries, enrolled]`.
    """
    best, nearest = cosines.max(axis=1), cosines.argmax(axis=1)
    is_known = np.array([who in known for who in spoken])
    is_own = np.array([known[place] == who for place, who in zip(nearest, spoken, strict=True)])
    found = []
    for threshold in THRESHOLDS:
        is_named = best >= threshold
        found.append(
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
    return found


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
    # Half of what is left is for conversations.
    later = left[len(left) // 2 :]
    del left[len(left) // 2 :]
    queries: list[Waveform] = []
    while left and len(queries) < QUERIES:
        if len(query := said(max(QUERIES_S))) == round(max(QUERIES_S) * SAMPLE_RATE):
            queries.append(query)
    return Person(name, enrolment, queries, later)


def _sound(found: Transcript) -> Waveform:
    return embedding_of(str(found.speakers[0].embedding))


def _answers(
    url: str, sent: Sequence[tuple[Waveform, int]], options: Mapping[str, Any]
) -> list[Transcript]:
    async def answered() -> list[Transcript]:
        async with AsyncClient(url) as client:

            async def send(index: int) -> Transcript:
                waveform, rate = sent[index]
                return await client.transcribe(waveform, sample_rate=rate, **options)

            load = await closed_loop(send, len(sent), AT_ONCE)
        if errors := [item.error for item in load.outcomes if item.error]:
            raise BenchError(errors[0])
        return [item.answer for item in load.outcomes if item.answer is not None]

    return asyncio.run(answered())


def markdown(report: KnownReport) -> str:
    """Return the tables of a report and lines on its origin."""
    columns = ["condition", "query s", "threshold", "right %", "wrong %", "unknown %"]
    rows = [
        [
            *(item.condition, f"{item.query_s:g}", f"{item.threshold:.2f}"),
            *map(percent, (item.right, item.wrong, item.unknown, item.strangers_named)),
        ]
        for item in report.runs
        if item.threshold in SHOWN.get(item.condition, SHOWN["clean"])
    ]
    names = [
        [
            item.condition,
            f"{item.right} of {item.enrolled}",
            f"{item.wrong} of {item.enrolled + item.strangers}",
            *map(percent, (*item.live, *item.end)),
        ]
        for item in report.conversations
    ]
    heads = ["conversations", "enrolled voices with their name", "wrong names"]
    heads += [f"{at}: {what} %" for at in ("live", "end") for what in ("named", "misnamed")]
    count = sum(item.queries for item in report.runs if item.threshold == THRESHOLDS[0])
    return (
        f"`{report.header.command}`\n\n{table([*columns, 'strangers named %'], rows)}\n\n"
        f"{table(heads, names)}\n\n"
        f"{origin(report.header, f'{count} queries', report.audio_s)}\n"
    )
