"""`python -m lab growth`: does the cost of a second of audio stay the same as the load grows?

Three things grow, one at a time: the length of a recording (one client), the number of clients
(recordings of five seconds), and the number of live streams (paced in real time).

A process's CPU is counted in ticks of 10 ms, so a row of recordings has at least a hundred seconds
of audio if each is shorter.
"""

import asyncio
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from conch.bench.figures import LiveRun, RunFigures, StreamRecord, run_figures
from conch.bench.header import Flat, Header
from conch.bench.live import LiveBenchmark, observed, scripts, warm_up
from conch.bench.load import Offer
from conch.bench.memory import Memory, MemorySampler
from conch.bench.offline import send_all
from conch.bench.samples import Choice, Sample, load_samples
from conch.bench.servers import own_server, triton_version
from conch.component import SAMPLE_RATE
from conch.scoring import COMPARING, require
from conch.scoring.error_rates import ENGLISH_WORDS
from lab.command import lab_header
from lab.served import ORCHESTRATION, sample_of, share_of
from lab.waveforms import resampled

PAUSE_S = 0.5
"""Seconds between joined recordings."""
ROW_AUDIO_S = 100
"""Least seconds of audio of a row, if a recording is shorter."""
CLIP_S = 5
"""Seconds of the recordings that several clients send."""
REQUESTS = 24
"""Least requests of a row of clients."""
WARMUP = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowthBenchmark(Choice):
    """An empty sequence leaves a part without rows."""

    lengths: Sequence[int] = (1, 5, 30, 300, 3600)
    concurrency: Sequence[int] = (1, 4, 16, 64, 256)
    streams: Sequence[int] = (1, 8, 24)
    seconds: int = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The server's cost of a second of audio; None if none was answered."""

    cpu_s_per_audio_s: Mapping[str, float] | None = None
    """CPU of the server during the row, by process, with `total`."""
    orchestration_cpu_s_per_audio_s: float | None = None
    """CPU of that in `speech` and Triton itself, which are no components."""
    orchestration_share: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    cost: Flat[Cost]
    peak_memory_mb: float
    """The largest sample within the row (see `conch.bench.memory`).

    A process keeps its memory, so a row may include that of earlier rows in the same part. Each
    part has a new server.
    """
    memory_by_process_mb: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingsRow:
    """Recordings of one length, sent by some clients."""

    length_s: int
    concurrency: int
    figures: Flat[RunFigures]
    taken: Flat[Taken]


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsRow:
    figures: Flat[LiveRun]
    taken: Flat[Taken]

    @property
    def streams(self) -> int:
        return self.figures.streams


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowthReport:
    header: Flat[Header]
    lengths: Sequence[RecordingsRow]
    concurrency: Sequence[RecordingsRow]
    streams: Sequence[StreamsRow]

    @property
    def errors(self) -> list[str]:
        rows = [*self.lengths, *self.concurrency]
        messages = [row.figures.error_messages[0].message for row in rows if row.figures.errors]
        return messages + [
            row.figures.error_messages[0] for row in self.streams if row.figures.errors
        ]


def run(benchmark: GrowthBenchmark) -> GrowthReport:
    require(*COMPARING)
    samples = [at_16_khz(item) for item in load_samples(benchmark.utterances(), "waveform")]
    audio = joined([item.audio for item in samples if isinstance(item.audio, np.ndarray)])
    header = lab_header("growth", benchmark)
    lengths, concurrency = [], []
    with _fresh_server(audio) as (url, memory):
        header = header.with_triton(triton_version(url))
        for length in benchmark.lengths:
            sent = clips(audio, length, repeats(length))
            lengths.append(_recordings(url, memory, sent, length, clients=1))
    with _fresh_server(audio) as (url, memory):
        for clients in benchmark.concurrency:
            sent = clips(audio, CLIP_S, max(REQUESTS, 2 * clients))
            concurrency.append(_recordings(url, memory, sent, CLIP_S, clients))
    with _fresh_server(audio) as (url, memory):
        streams = [_streams(url, memory, samples, count, benchmark) for count in benchmark.streams]
    return GrowthReport(header=header, lengths=lengths, concurrency=concurrency, streams=streams)


def joined(waveforms: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
    """Return the waveforms one after the other with a pause after each; mono, 16 kHz."""
    pause = np.zeros(round(PAUSE_S * SAMPLE_RATE), np.float32)
    return np.concatenate([part for waveform in waveforms for part in (waveform, pause)])


def clips(audio: NDArray[np.float32], length_s: int, count: int) -> list[Sample]:
    """Cut clips of exactly `length_s` seconds out of endlessly repeated audio.

    They follow each other, so no two are the same before the audio is used up.
    """
    size = length_s * SAMPLE_RATE
    starts = [index * size % len(audio) for index in range(count)]
    # Clips are views, because hundreds of copies would fill the memory.
    endless = np.resize(audio, len(audio) + size)
    return [sample_of(endless[start : start + size], SAMPLE_RATE) for start in starts]


def repeats(length_s: int) -> int:
    return math.ceil(ROW_AUDIO_S / length_s)


def costs(used_s: Mapping[str, float], audio_s: float) -> Cost:
    """Return the cost of a second of audio, from CPU seconds by process; 0 s have no cost."""
    if not audio_s:
        return Cost()
    orchestration = sum(used_s.get(name, 0.0) for name in ORCHESTRATION)
    return Cost(
        cpu_s_per_audio_s={
            **{name: round(seconds / audio_s, 5) for name, seconds in used_s.items()},
            "total": round(sum(used_s.values()) / audio_s, 5),
        },
        orchestration_cpu_s_per_audio_s=round(orchestration / audio_s, 6),
        orchestration_share=share_of(used_s, ORCHESTRATION),
    )


@contextmanager
def _fresh_server(audio: NDArray[np.float32]) -> Iterator[tuple[str, MemorySampler]]:
    # One server for each part: a process keeps the memory of its largest row.
    with own_server() as (url, memory):
        asyncio.run(_sent(url, clips(audio, CLIP_S, WARMUP), clients=1))
        yield url, memory


def at_16_khz(sample: Sample) -> Sample:
    assert isinstance(sample.audio, np.ndarray)
    waveform = resampled(sample.audio, sample.sample_rate)
    return replace(sample, audio=waveform, sample_rate=SAMPLE_RATE)


async def _sent(url: str, samples: Sequence[Sample], clients: int) -> RunFigures:
    load = await send_all(url, samples, offered=Offer(concurrency=clients), options={})
    return run_figures(samples, load)


def _recordings(
    url: str, memory: MemorySampler, samples: Sequence[Sample], length_s: int, clients: int
) -> RecordingsRow:
    memory.forget()
    before = memory.cpu_s()
    figures = asyncio.run(_sent(url, samples, clients))
    taken = _taken(memory.cpu_since(before), memory.peak(), figures.audio_s)
    return RecordingsRow(length_s=length_s, concurrency=clients, figures=figures, taken=taken)


def _streams(
    url: str,
    memory: MemorySampler,
    samples: Sequence[Sample],
    streams: int,
    benchmark: GrowthBenchmark,
) -> StreamsRow:
    live = LiveBenchmark(manifest=benchmark.manifest, seconds=benchmark.seconds)
    said = scripts(samples, streams, live)
    warm_up(url, said, live)
    memory.forget()
    watched = observed(url, said, replace(live, warmup_s=0), memory, StreamRecord)
    figures = watched.figures(ENGLISH_WORDS)
    taken = _taken(watched.cpu_s or {}, watched.peak or Memory(), figures.audio_s)
    return StreamsRow(figures=figures, taken=taken)


def _taken(used_s: Mapping[str, float], peak: Memory, audio_s: float) -> Taken:
    return Taken(
        cost=costs(used_s, audio_s),
        peak_memory_mb=peak.total_mb,
        memory_by_process_mb=peak.by_process_mb,
    )
