"""Speaker labels of made conversations: errors, number of speakers, words, and what they cost."""

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conch.bench.header import Flat, Header, origin
from conch.bench.load import progress
from conch.bench.memory import cpu_by_process, cpu_since
from conch.bench.servers import triton_version
from conch.bench.speakers import NO_ERRORS, SpeakerErrors, errors
from conch.cli.server import server_url
from conch.scoring import COMPARING, require
from conch.scoring.error_rates import number, percent
from conch.wire.result import Transcript, Turn
from lab.command import lab_header
from lab.markdown import page, table_of
from lab.served import answers
from lab.speakers import peer
from lab.speakers.conversations import (
    CONDITIONS,
    Condition,
    Conversation,
    Source,
    conversation,
    overlap_share,
    read_sources,
)
from lab.waveforms import resampled


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeakersBenchmark:
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
    peer: bool = False
    """Whether another system labels the same conversations."""
    url: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def setups(self) -> list[tuple[Condition, int]]:
        return [(where, count) for where in self.conditions for count in self.speakers]

    def made(
        self, sources: Sequence[Source], condition: Condition, count: int
    ) -> list[Conversation]:
        return [
            conversation(
                *(sources, count, self.seconds, condition, [self.seed, count, index]),
                self.overlaps,
            )
            for index in range(self.conversations)
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeakersFigures:
    system: str
    """`conch`, or `peer`."""
    condition: Condition
    speakers: int
    conversations: int
    audio_s: float
    overlap: float
    """Share of the speech in which several speak."""
    errors: Flat[SpeakerErrors]
    der: float
    right: int
    """Conversations whose number of speakers was found."""
    cpu_s_per_audio_s: float | None
    """Of all processes of the server, beyond those without labels; None of a server elsewhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeakersReport:
    header: Flat[Header]
    audio_s: float
    runs: Sequence[SpeakersFigures]


def run(benchmark: SpeakersBenchmark) -> SpeakersReport:
    require(*COMPARING)
    if benchmark.peer:
        peer.require_peer()
    sources = read_sources(benchmark.manifest, benchmark.split)
    header = lab_header("speakers", benchmark)
    plain = {"word_timestamps": True, **benchmark.options}
    wanted = {**plain, "speakers": "auto"}
    all_figures: list[SpeakersFigures] = []
    with (
        server_url(benchmark.url, [wanted]) as url,
        progress("setups", len(benchmark.setups)) as bar,
    ):
        header = header.with_triton(triton_version(url))
        for condition, count in benchmark.setups:
            made = benchmark.made(sources, condition, count)
            transcripts, cpu_s = _measured(url, made, wanted)
            # Without a text, nothing is left without labels.
            plain_s = _measured(url, made, plain)[1] if plain.get("decoder") != "none" else 0.0
            cpu = None if benchmark.url else cpu_s - plain_s
            labels: list[Sequence[Turn]] = [item.turns for item in transcripts]
            all_figures.append(figures("conch", condition, count, made, labels, cpu))
            if benchmark.peer:
                began = time.process_time()
                labels = [peer.turns(resampled(item.waveform, item.sample_rate)) for item in made]
                cpu = time.process_time() - began
                all_figures.append(figures("peer", condition, count, made, labels, cpu))
            bar.update()
    audio_s = round(sum(item.audio_s for item in all_figures if item.system == "conch"), 1)
    return SpeakersReport(header=header, audio_s=audio_s, runs=all_figures)


def _measured(
    url: str, made: Sequence[Conversation], options: Mapping[str, Any]
) -> tuple[list[Transcript], float]:
    """Return the answers to conversations, one after the other, and the CPU seconds they took."""
    before = cpu_by_process(os.getpid())
    transcripts = answers(url, [(item.waveform, item.sample_rate) for item in made], options, 1)
    return transcripts, sum(cpu_since(os.getpid(), before).values())


def figures(
    system: str,
    condition: Condition,
    speakers: int,
    made: Sequence[Conversation],
    recognised: Sequence[Sequence[Turn]],
    cpu_s: float | None,
) -> SpeakersFigures:
    pairs = [*zip(made, recognised, strict=True)]
    total = sum((errors(item.turns, turns) for item, turns in pairs), NO_ERRORS)
    audio_s = sum(item.duration_s for item in made)
    return SpeakersFigures(
        system=system,
        condition=condition,
        speakers=speakers,
        conversations=len(made),
        audio_s=round(audio_s, 1),
        overlap=round(sum(overlap_share(item.turns) for item in made) / len(made), 4),
        errors=total,
        der=round(total.rate, 4),
        right=sum(len({turn.speaker for turn in turns}) == item.speakers for item, turns in pairs),
        cpu_s_per_audio_s=None if cpu_s is None else round(cpu_s / audio_s, 4),
    )


def markdown(report: SpeakersReport) -> str:
    shares = ("missed", "false", "confused")
    shown = table_of(
        report.runs,
        (
            ("condition", _condition),
            ("speakers", lambda item: item.speakers),
            ("DER %", lambda item: percent(item.der)),
            *(
                (name, lambda item, place=place: percent(item.errors.shares[place]))
                for place, name in enumerate(shares)
            ),
            ("number right", lambda item: f"{item.right} of {item.conversations}"),
            ("overlap %", lambda item: percent(item.overlap)),
            ("CPU s per audio s", lambda item: number(item.cpu_s_per_audio_s, 3)),
        ),
    )
    said = (
        "DER without a collar, overlapping speech counts, pauses of half a second do not; CPU of "
        "the labels, of all processes of the server"
    )
    count = sum(item.conversations for item in report.runs if item.system == "conch")
    where = origin(report.header, f"{count} conversations", report.audio_s)
    return page(report.header, f"{shown}\n{said}; {where}")


def _condition(item: SpeakersFigures) -> str:
    return item.condition if item.system == "conch" else f"{item.condition}, {item.system}"
