"""Speaker labels of conversations that are streamed: errors by how late one decides, and cost.

Who speaks when is measured in process, step by step as a server takes them; how late words get
their labels, and what these cost, on a server, in real time.
"""

import asyncio
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from conch.bench.header import Flat, Header, origin
from conch.bench.load import progress
from conch.bench.memory import cpu_by_process, cpu_since
from conch.bench.servers import triton_version
from conch.bench.speakers import NO_ERRORS, SpeakerErrors, errors
from conch.bls.calls import Calls
from conch.cli.server import server_url
from conch.client import AsyncClient
from conch.component import SAMPLE_RATE, VAD_STATE_SIZE, ComponentModel, Row
from conch.component.parameters import NiceConfig
from conch.families.silero.vad import SileroConfig, SileroVad
from conch.families.speakers.components import EmbeddingComponent, SegmentationComponent
from conch.families.speakers.live_labels import LiveLabels
from conch.scoring.error_rates import number, percent, table
from conch.wire.options import RecognitionOptions
from conch.wire.result import Turn
from lab.command import lab_header
from lab.orchestration.component_queues import HostTensor
from lab.pacing import paced
from lab.reports import page
from lab.speakers.benchmark import SpeakersBenchmark
from lab.speakers.conversations import Condition, Conversation, read_sources
from lab.waveforms import resampled

LATE_S = (0.5, 1.0, 2.0, 4.0)
STEP = 10_240
CHUNK_S = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveFigures:
    condition: Condition
    speakers: int
    conversations: int
    audio_s: float
    der: Mapping[str, float]
    """By how many seconds late one decides; `end` is after the labels at the end."""
    right: int
    """Conversations whose number of speakers was found at the end."""
    cpu_s_per_audio_s: float | None
    """Of all processes of the server, beyond those without labels; None without a server of its
    own."""
    late_s: Sequence[float]
    """From the end of a word until it is shown first, median and 95th percentile, and until it has
    its first label; none without a server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveReport:
    header: Flat[Header]
    audio_s: float
    runs: Sequence[LiveFigures]


@dataclass(frozen=True, slots=True)
class Labelled:
    decided: Mapping[float, Sequence[Turn]]
    """By how late one decides."""
    end: Sequence[Turn]


def run(benchmark: SpeakersBenchmark, *, streams: bool) -> LiveReport:
    """Measure; without `streams`, in process alone."""
    sources = read_sources(benchmark.manifest, benchmark.split)
    header = lab_header("speakers", benchmark)
    networks, vad = Networks(), SileroVad(SileroConfig())
    options = {"speakers": "auto"}
    all_figures = []
    with progress("setups", len(benchmark.setups)) as bar:
        for condition, count in benchmark.setups:
            made = benchmark.made(sources, condition, count)
            labelled = [asyncio.run(networks.label(item, vad, options)) for item in made]
            cpu: float | None = None
            late_s: Sequence[float] = ()
            if streams:
                with server_url(
                    benchmark.url, [{**benchmark.options, **options}], live=True
                ) as url:
                    header = header.with_triton(triton_version(url))
                    cpu, late_s = asyncio.run(_streamed(url, made[0], benchmark.options, options))
            all_figures.append(figures(condition, count, made, labelled, cpu, late_s))
            bar.update()
    return LiveReport(
        header=header, audio_s=round(sum(item.audio_s for item in all_figures), 1), runs=all_figures
    )


class Networks:
    def __init__(self) -> None:
        config = NiceConfig(nice=0)
        self._components: Mapping[str, ComponentModel] = {
            "speaker_segmentation": SegmentationComponent(config),
            "speaker_embedding": EmbeddingComponent(config),
        }

    async def __call__(
        self,
        model: str,
        inputs: Mapping[str, Any],
        outputs: Sequence[str],
        parameters: Mapping[str, Any] | None = None,
    ) -> Mapping[str, Any]:
        (output,) = self._components[model]([Row(inputs, parameters or {})])
        if isinstance(output, Exception):
            raise output
        return {name: HostTensor(output[name]) for name in outputs}

    async def label(
        self, item: Conversation, vad: SileroVad, options: Mapping[str, Any]
    ) -> Labelled:
        waveform = resampled(item.waveform, item.sample_rate)
        labels = LiveLabels(
            RecognitionOptions.parse({**options, "adaptive": False}, live=True), cast(Calls, self)
        )
        state = np.zeros(VAD_STATE_SIZE, np.float32)
        decided: dict[float, list[Turn]] = {late_s: [] for late_s in LATE_S}
        for start in range(0, len(waveform), STEP):
            step = waveform[start : start + STEP]
            probs, state = vad.speech_probs(step, state)
            labels.hear(step, probs)
            await labels.settled()
            until = (start + STEP) / SAMPLE_RATE
            ends = start + STEP >= len(waveform)
            for late_s, turns in decided.items():
                edges = until - late_s - STEP / SAMPLE_RATE, until - (0 if ends else late_s)
                turns += _within(labels.turns(edges[0]), *edges)
        last = await labels.finish()
        return Labelled(decided, last.turns)


def figures(
    condition: Condition,
    speakers: int,
    made: Sequence[Conversation],
    labelled: Sequence[Labelled],
    cpu: float | None,
    late_s: Sequence[float],
) -> LiveFigures:
    totals: dict[str, SpeakerErrors] = {}
    right = 0
    for item, labels in zip(made, labelled, strict=True):
        by_delay = {f"{late_s:g}": turns for late_s, turns in labels.decided.items()}
        for name, turns in {**by_delay, "end": labels.end}.items():
            totals[name] = totals.get(name, NO_ERRORS) + errors(item.turns, turns)
        right += len({turn.speaker for turn in labels.end}) == item.speakers
    audio_s = sum(item.duration_s for item in made)
    return LiveFigures(
        condition=condition,
        speakers=speakers,
        conversations=len(made),
        audio_s=round(audio_s, 1),
        der={name: round(total.rate, 4) for name, total in totals.items()},
        right=right,
        cpu_s_per_audio_s=cpu,
        late_s=tuple(round(float(item), 2) for item in late_s),
    )


async def _streamed(
    url: str, item: Conversation, options: Mapping[str, Any], labelling: Mapping[str, Any]
) -> tuple[float, Sequence[float]]:
    """Return CPU seconds of the labels by second of audio, and how late words get theirs."""
    cpu = []
    late: tuple[list[float], list[float]] = [], []
    for more in ({}, labelling):
        before = cpu_by_process(os.getpid())
        late = await _late(url, item, {"word_timestamps": True, **options, **more})
        cpu.append(sum(cpu_since(os.getpid(), before).values()))
    shares = [
        value for delays in late if delays for value in np.percentile(delays, (50, 95)).tolist()
    ]
    return round((cpu[1] - cpu[0]) / item.duration_s, 4), shares


async def _late(
    url: str, item: Conversation, options: Mapping[str, Any]
) -> tuple[list[float], list[float]]:
    """Stream a conversation in real time; return how late each word is shown, and its label."""
    late: tuple[list[float], list[float]] = [], []
    until = [0.0, 0.0]
    async with (
        AsyncClient(url) as client,
        client.live(sample_rate=item.sample_rate, **options) as stream,
    ):
        began = time.perf_counter()
        async for chunk in paced(item.waveform, item.sample_rate, CHUNK_S, began):
            answer = await stream.send(chunk)
            now_s = time.perf_counter() - began
            ended = [word for segment in answer.segments for word in segment.words]
            spoken = answer.utterance.words if answer.utterance else ()
            for word in sorted((*ended, *spoken), key=lambda word: word.start):
                for index in range(1 + bool(word.speaker)):
                    if word.start >= until[index]:
                        late[index].append(now_s - word.end)
                        until[index] = word.end
        await stream.finish()
    return late


def markdown(report: LiveReport) -> str:
    lates = [f"{late_s:g} s late" for late_s in LATE_S]
    columns = [
        *("condition", "speakers", *(f"DER %, {name}" for name in lates)),
        *("end", "number right", "CPU s per audio s"),
        *("word shown s, median", "95 %", "label s, median", "95 %"),
    ]
    rows = [
        [
            item.condition,
            str(item.speakers),
            *(percent(der) for der in item.der.values()),
            f"{item.right} of {item.conversations}",
            number(item.cpu_s_per_audio_s, 3),
            *(number(value, 1) for value in (*item.late_s, *[None] * 4)[:4]),
        ]
        for item in report.runs
    ]
    count = f"{sum(item.conversations for item in report.runs)} conversations"
    is_served = "triton" in report.header.versions
    where = origin(report.header, count, report.audio_s) if is_served else count
    said = (
        "DER without a collar, overlapping speech counts; decided so long before the end of the "
        "audio, or up to a step (0.64 s) longer; CPU and first labels of the first conversation, "
        "streamed in real time"
    )
    return page(report.header, f"{table(columns, rows)}\n{said}; {where}")


def _within(turns: Sequence[Turn], start: float, end: float) -> list[Turn]:
    return [
        Turn(turn.speaker, max(start, turn.start), min(end, turn.end))
        for turn in turns
        if turn.start < end and turn.end > start
    ]
