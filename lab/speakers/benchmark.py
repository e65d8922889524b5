"""Speaker labels of made conversations: errors, number of speakers, words, and what they cost."""

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from conch.bench.header import Flat, Header
from conch.bench.load import closed_loop, progress
from conch.bench.memory import cpu_by_process, cpu_since
from conch.bench.report import origin
from conch.bench.servers import triton_version
from conch.bench.turns import NO_ERRORS, SpeakerErrors, errors
from conch.cli.own_server import server_url
from conch.client import AsyncClient
from conch.scoring import COMPARING, require
from conch.scoring.tables import number, percent, table
from conch.wire.errors import BenchError
from conch.wire.result import Transcript
from conch.wire.turns import speaker_of
from lab.header import lab_header
from lab.speakers.conversations import (
    CONDITIONS,
    Condition,
    Conversation,
    conversation,
    read_sources,
)
from lab.speakers.peer import PeerFigures, measured, require_peer
from lab.speakers.turns import naming, overlap_share
from lab.speakers.words import errors_by_speaker, wrong_words


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeakersBenchmark:
    """Settings of the benchmark."""

    manifest: Path
    split: str = "dev"
    speakers: tuple[int, ...] = (2, 3, 4, 8)
    conditions: tuple[Condition, ...] = CONDITIONS
    conversations: int = 4
    """Of each number of speakers and condition."""
    seconds: float = 180.0
    seed: int = 7
    overlaps: float | None = None
    """As of `conversation`."""
    is_number_given: bool = False
    has_peer: bool = False
    """Whether another system labels the same conversations."""
    url: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeakersFigures:
    """The figures of some conversations."""

    condition: Condition
    speakers: int
    conversations: int
    audio_s: float
    overlap: float
    """Share of the speech in which several speak."""
    errors: Flat[SpeakerErrors]
    der: float
    der_of_whole: float
    """The same if the pauses of an utterance are speech."""
    turns: int
    """Found ones."""
    turns_of_reference: int
    right: int
    """Conversations whose number of speakers was found."""
    wder: float | None
    """Share of the recognised words with the wrong speaker."""
    wder_of_reference: float | None
    """The same if words have the speakers of the reference."""
    cpwer: float | None
    """Word errors of the speakers' texts, by the words that are said."""
    cpu_s_per_audio_s: float | None
    """Of all processes of the server, beyond those without labels; None of a server elsewhere."""
    plain_cpu_s_per_audio_s: float | None
    """The same without labels."""
    slower: float | None
    """Time of the answer with labels, divided by that without; None if no text was asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeakersReport:
    """The report of the benchmark."""

    header: Flat[Header]
    audio_s: float
    runs: Sequence[SpeakersFigures]
    peer: Sequence[PeerFigures]


def run(benchmark: SpeakersBenchmark) -> SpeakersReport:
    """Measure and return the report.

    Raises:
        BenchError: the manifest, an audio file or a package is missing.
        ServerError: no server answers, or it cannot be started.
        OptionError: the options contradict each other.
    """
    require(*COMPARING)
    if benchmark.has_peer:
        require_peer()
    sources = read_sources(benchmark.manifest, benchmark.split)
    header = lab_header("speakers", benchmark)
    asked = {"word_timestamps": True, **benchmark.options}
    found: list[SpeakersFigures] = []
    peer: list[PeerFigures] = []
    kinds = [(where, count) for where in benchmark.conditions for count in benchmark.speakers]
    served = server_url(benchmark.url, [{**asked, "speakers": "auto"}])
    with served as url, progress("kinds", len(kinds)) as bar:
        header = header.with_triton(triton_version(url))
        for condition, count in kinds:
            made = [
                conversation(
                    sources,
                    count,
                    benchmark.seconds,
                    condition,
                    [benchmark.seed, count, place],
                    f"{condition}-{count}-{place}",
                    benchmark.overlaps,
                )
                for place in range(benchmark.conversations)
            ]
            wanted = {**asked, "speakers": count if benchmark.is_number_given else "auto"}
            labelled = _measured(url, made, wanted)
            # Without a text, nothing is left without labels.
            plain = _measured(url, made, asked) if asked.get("decoder") != "none" else None
            is_own = benchmark.url is None
            found.append(figures(condition, count, made, labelled, plain, is_own=is_own))
            if benchmark.has_peer:
                peer.append(measured(condition, count, made))
            bar.update()
    audio_s = round(sum(item.audio_s for item in found), 1)
    return SpeakersReport(header=header, audio_s=audio_s, runs=found, peer=peer)


@dataclass(frozen=True, slots=True)
class Measured:
    """The answers to some conversations, and what they took."""

    transcripts: Sequence[Transcript]
    seconds: float
    cpu_s: float


def _measured(url: str, made: Sequence[Conversation], options: Mapping[str, Any]) -> Measured:
    before = cpu_by_process(os.getpid())
    answers = asyncio.run(_answers(url, made, options))
    cpu_s = sum(cpu_since(os.getpid(), before).values())
    return Measured([item for item, _ in answers], sum(s for _, s in answers), cpu_s)


async def _answers(
    url: str, made: Sequence[Conversation], options: Mapping[str, Any]
) -> list[tuple[Transcript, float]]:
    """Return each answer and its seconds; one conversation is sent after the other."""
    async with AsyncClient(url) as client:

        async def send(index: int) -> Transcript:
            item = made[index]
            return await client.transcribe(item.waveform, sample_rate=item.sample_rate, **options)

        load = await closed_loop(send, len(made), 1)
    answered = [(item.answer, item.latency_s) for item in load.outcomes if item.answer is not None]
    if len(answered) < len(made):
        raise BenchError(next(item.error for item in load.outcomes if item.error))
    return answered


def figures(
    condition: Condition,
    speakers: int,
    made: Sequence[Conversation],
    labelled: Measured,
    plain: Measured | None,
    *,
    is_own: bool,
) -> SpeakersFigures:
    """Return the figures of conversations of one kind."""
    total = whole = NO_ERRORS
    right = turns = wrong = least = words = 0
    cp_errors = cp_words = 0
    for item, transcript in zip(made, labelled.transcripts, strict=True):
        found = transcript.turns
        total += errors(item.turns, found)
        whole += errors(item.utterances, found)
        turns += len(found)
        right += len(transcript.speakers) == item.speakers
        names, heard = naming(item.turns, found), transcript.words
        named = [replace(word, speaker=names.get(str(word.speaker), "")) for word in heard]
        perfect = [
            replace(word, speaker=speaker_of(word.start, word.end, item.turns)) for word in heard
        ]
        mistaken, recognised = wrong_words(item.utterances, named)
        wrong, words = wrong + mistaken, words + recognised
        least += wrong_words(item.utterances, perfect)[0]
        spoilt, spoken = errors_by_speaker(item.utterances, heard)
        cp_errors, cp_words = cp_errors + spoilt, cp_words + spoken
    audio_s = sum(item.duration_s for item in made)
    plain_cpu_s = plain.cpu_s if plain else 0.0
    return SpeakersFigures(
        condition=condition,
        speakers=speakers,
        conversations=len(made),
        audio_s=round(audio_s, 1),
        overlap=round(sum(overlap_share(item.turns) for item in made) / len(made), 4),
        errors=total,
        der=round(total.rate, 4),
        der_of_whole=round(whole.rate, 4),
        turns=turns,
        turns_of_reference=sum(len(item.turns) for item in made),
        right=right,
        wder=round(wrong / words, 4) if words else None,
        wder_of_reference=round(least / words, 4) if words else None,
        cpwer=round(cp_errors / cp_words, 4) if words else None,
        cpu_s_per_audio_s=round((labelled.cpu_s - plain_cpu_s) / audio_s, 4) if is_own else None,
        plain_cpu_s_per_audio_s=round(plain_cpu_s / audio_s, 4) if is_own else None,
        slower=round(labelled.seconds / plain.seconds, 3) if plain else None,
    )


def markdown(report: SpeakersReport) -> str:
    """Return the table of a report and lines on its origin."""
    columns = [
        *("condition", "speakers", "DER %", "missed", "false", "confused"),
        *("whole utterances: DER %", "turns", "number right"),
        *("WDER %", "of the reference", "cpWER %", "overlap %"),
        *("CPU s per audio s", "without labels", "time"),
    ]
    rows = [
        [
            item.condition,
            str(item.speakers),
            *map(percent, (item.der, *item.errors.shares, item.der_of_whole)),
            f"{item.turns} for {item.turns_of_reference}",
            f"{item.right} of {item.conversations}",
            *map(percent, (item.wder, item.wder_of_reference, item.cpwer)),
            percent(item.overlap),
            number(item.cpu_s_per_audio_s, 3),
            number(item.plain_cpu_s_per_audio_s, 3),
            number(item.slower, 2),
        ]
        for item in report.runs
    ]
    rows += [
        [
            f"{item.condition}, peer",
            str(item.speakers),
            *map(percent, (item.der, *item.errors.shares)),
            *"--",
            f"{item.right} of {item.conversations}",
            *"----",
            number(item.cpu_s_per_audio_s, 3),
            *"--",
        ]
        for item in report.peer
    ]
    said = (
        "DER without a collar, overlapping speech counts, pauses of half a second do not; WDER "
        "with the words in the order of the utterances' starts; CPU of the labels, of all "
        "processes of the server; time of the answer divided by that without labels"
    )
    count = sum(item.conversations for item in report.runs)
    return (
        f"`{report.header.command}`\n\n{table(columns, rows)}\n"
        f"{said}; {origin(report.header, f'{count} conversations', report.audio_s)}\n"
    )
