"""`conch bench live`: live streams, each paced in real time, against a running server.

Each stream is a sequence of utterances with pauses between them. A chunk is due when its last
sample would have been spoken. It is sent then, or as soon as the chunk before it is answered. Its
latency counts from when it was due, so a server that falls behind cannot hide it.
"""

import asyncio
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from conch.bench.figures import PERCENTILES, REAL_TIME, LiveRun, Script, StreamRecord, live_run
from conch.bench.header import Flat, Header, header, machine_line
from conch.bench.load import progress
from conch.bench.samples import Sample, ServerBenchmark, comparable, load_samples
from conch.bench.servers import server_of, triton_version
from conch.client import AsyncClient
from conch.client.aio import all_of
from conch.scoring.error_rates import Scoring, language_of_texts, number, percent, table
from conch.scoring.manifest import ManifestEntry
from conch.wire.errors import BenchError, ConchError
from conch.wire.options import RecognitionOptions

if TYPE_CHECKING:
    from conch.bench.memory import Memory, MemorySampler

STEP_MS = 640
"""Least time over which the starts of streams are spread: the server works in such steps."""

Record = TypeVar("Record", bound=StreamRecord)


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveBenchmark(ServerBenchmark):
    streams: Sequence[int] = (8,)
    """Numbers of concurrent streams; one run for each."""
    chunk_ms: int = 640
    seconds: float = 60.0
    """Least seconds of audio of a stream."""
    pause_s: float = 1.5
    warmup_s: float = 5.0
    """Uncounted seconds of the same streams before each run: first streams make a server grow."""
    find_largest: bool = False

    @property
    def has_second_pass(self) -> bool:
        return RecognitionOptions.parse(self.options, live=True).mode == "two_pass"


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveReport:
    header: Flat[Header]
    options: RecognitionOptions
    scoring: str
    """The measure and the normaliser of the error rate."""
    best: Flat[LiveRun]
    """The largest run that kept up, or the first run if none did."""
    runs: Sequence[LiveRun]


class Counted(Protocol):
    @property
    def streams(self) -> int: ...

    @property
    def keeps_up(self) -> bool: ...


Run = TypeVar("Run", bound=Counted)


def run(benchmark: LiveBenchmark) -> LiveReport:
    samples, scoring = prepared(benchmark)
    begun = header("live", benchmark)
    with server_of(benchmark.url, benchmark.weights) as (url, memory):
        version = triton_version(url, benchmark.headers)

        def measured(streams: int) -> LiveRun:
            said = scripts(samples, streams, benchmark)
            return observed(url, said, benchmark, memory, StreamRecord).figures(scoring)

        runs = all_runs(measured, benchmark)
    return LiveReport(
        header=begun.with_triton(version),
        options=RecognitionOptions.parse(benchmark.options, live=True),
        scoring=scoring.title,
        best=best_of(runs),
        runs=runs,
    )


@dataclass(frozen=True, slots=True)
class Observed(Generic[Record]):
    records: Sequence[Record]
    chunk_ms: int
    cpu_s: Mapping[str, float] | None
    """CPU time by process of a server that the benchmark started, else None."""
    peak: "Memory | None"

    def figures(self, scoring: Scoring) -> LiveRun:
        used_s = None if self.cpu_s is None else sum(self.cpu_s.values())
        return live_run(self.records, self.chunk_ms, scoring, used_s, self.peak)


def prepared(benchmark: LiveBenchmark) -> tuple[list[Sample], Scoring]:
    utterances = comparable(benchmark.utterances())
    scoring = scoring_of(utterances, benchmark)
    return load_samples(utterances, "waveform"), scoring


def observed(
    url: str,
    said: Sequence[Script],
    benchmark: LiveBenchmark,
    memory: "MemorySampler | None",
    record: Callable[[Script, bool], Record],
) -> Observed[Record]:
    warm_up(url, said, benchmark)
    before = memory.cpu_s() if memory else {}
    records = asyncio.run(all_streams(url, said, benchmark, record))
    cpu_s = memory.cpu_since(before) if memory else None
    return Observed(records, benchmark.chunk_ms, cpu_s, memory.peak() if memory else None)


def scoring_of(utterances: Sequence[ManifestEntry], benchmark: LiveBenchmark) -> Scoring:
    """Return how texts of streams are compared: by the manifest's language or the option."""
    languages = {language_of_texts(benchmark.options, item.language) for item in utterances}
    scorings = {Scoring.of(benchmark.metric, language) for language in languages}
    if len(scorings) > 1:
        raise BenchError(
            "streams join utterances, and those of the languages "
            f"{', '.join(sorted(languages))} are compared in different ways: choose one language "
            "by --split or --source"
        )
    return scorings.pop()


def all_runs(measured: Callable[[int], Run], benchmark: LiveBenchmark) -> list[Run]:
    """Measure the requested numbers of streams, and those of `find_largest`."""
    runs = [measured(streams) for streams in benchmark.streams]
    return runs + (largest(measured, runs) if benchmark.find_largest else [])


def best_of(runs: Sequence[Run]) -> Run:
    """Return the largest run that kept up, or the first one if none did."""
    return max((run for run in runs if run.keeps_up), key=lambda run: run.streams, default=runs[0])


def largest(measured: Callable[[int], Run], runs: Sequence[Run]) -> list[Run]:
    """Find the largest number of streams that keeps up, to an eighth; return the new runs.

    The number doubles until the server falls behind. Then the gap is halved.
    """
    further: list[Run] = []
    while True:
        known = [*runs, *further]
        low = max((run.streams for run in known if run.keeps_up), default=0)
        failed = [run.streams for run in known if not run.keeps_up and run.streams > low]
        high = min(failed, default=2 * low)
        streams = high if not failed else (low + high) // 2
        if failed and high - low <= max(1, high // 8):
            return further
        further.append(measured(streams))


def scripts(samples: Sequence[Sample], streams: int, benchmark: LiveBenchmark) -> list[Script]:
    """Return the script of each stream; streams take different utterances in turn."""
    rates = {sample.sample_rate for sample in samples}
    if len(rates) != 1:
        raise BenchError(f"the recordings must share one sample rate; found: {sorted(rates)}")
    rate = rates.pop()
    pause = np.zeros(round(benchmark.pause_s * rate), np.float32)
    order = list(range(len(samples)))
    random.Random(0).shuffle(order)
    made: list[Script] = []
    position = 0
    for _ in range(streams):
        pieces: list[NDArray[np.float32]] = []
        spans, texts, indices, length = [], [], [], 0
        while length < benchmark.seconds * rate:
            index = order[position % len(order)]
            sample = samples[index]
            position += 1
            indices.append(index)
            assert isinstance(sample.audio, np.ndarray)
            spans.append((length / rate, length / rate + sample.duration_s))
            pieces += [sample.audio, pause]
            length += len(sample.audio) + len(pause)
            texts.append(sample.utterance.text.strip())
        text = " ".join(texts)
        made.append(Script(np.concatenate(pieces), rate, tuple(spans), text, tuple(indices)))
    return made


def warm_up(url: str, said: Sequence[Script], benchmark: LiveBenchmark) -> None:
    if not benchmark.warmup_s:
        return
    beginnings = [
        replace(script, waveform=script.waveform[: round(benchmark.warmup_s * script.sample_rate)])
        for script in said
    ]
    asyncio.run(all_streams(url, beginnings, benchmark, StreamRecord, label="warm-up"))


async def all_streams(
    url: str,
    said: Sequence[Script],
    benchmark: LiveBenchmark,
    record: Callable[[Script, bool], Record],
    label: str = "streams",
) -> list[Record]:
    """Send all streams in real time, each with another start; return the record of each."""
    longest = max(len(script.waveform) / script.sample_rate for script in said)
    with progress(f"{label}: {len(said)}, seconds", round(longest)) as bar:

        async def tick() -> None:
            while True:
                await asyncio.sleep(1)
                bar.update()

        ticking = asyncio.create_task(tick())
        async with AsyncClient(url, connections=2 * len(said), headers=benchmark.headers) as client:
            rng = random.Random(1)
            records = [record(script, benchmark.has_second_pass) for script in said]
            # Streams do not speak in step.
            starts = [rng.uniform(0, max(benchmark.chunk_ms, STEP_MS) / 1000) for _ in said]
            try:
                await all_of(
                    _one_stream(client, item, start, benchmark)
                    for item, start in zip(records, starts, strict=True)
                )
            finally:
                ticking.cancel()
    return records


async def _one_stream(
    client: AsyncClient, record: StreamRecord, delay_s: float, benchmark: LiveBenchmark
) -> None:
    script = record.script
    block = script.sample_rate * benchmark.chunk_ms // 1000
    begun = time.perf_counter() + delay_s
    try:
        # Without resuming, a lost server is an error.
        async with client.live(
            sample_rate=script.sample_rate, resume_s=0, **benchmark.options
        ) as stream:
            for start in range(0, len(script.waveform), block):
                chunk = script.waveform[start : start + block]
                due = begun + (start + len(chunk)) / script.sample_rate
                await asyncio.sleep(max(0.0, due - time.perf_counter()))
                is_last = start + block >= len(script.waveform)
                answer = await (stream.finish(chunk) if is_last else stream.send(chunk))
                now = time.perf_counter()
                record.chunk_s.append(now - due)
                if is_last:
                    record.end_s.append(now - due)
                record.see(answer, now - begun)
    except ConchError as error:
        record.error = str(error) or type(error).__name__


COLUMNS = (
    *("streams", "keeps up", *(f"chunk p{p} ms" for p in PERCENTILES), "END p99 ms"),
    *("first partial p50 ms", "final p50 ms", "CPU ms/chunk", "CPU s / audio s", "peak MB"),
)


def markdown(report: LiveReport) -> str:
    rate = report.scoring.partition(",")[0]
    errors = [f"**{item}**" for run in report.runs for item in run.error_messages[:1]]
    parts = [
        f"`{report.header.command}`",
        table([*COLUMNS, f"{rate} %"], [[*cells(run), percent(run.wer)] for run in report.runs]),
        *errors,
        f"Error rates: {report.scoring}.",
        origin(report.header),
    ]
    return "\n\n".join(parts) + "\n"


def cells(run: LiveRun) -> list[str]:
    return [
        str(run.streams),
        "yes" if run.keeps_up else "no",
        *(number(value, 0) for value in run.chunk_latency_ms.percentiles),
        number(run.end_ms.p99, 0),
        number(run.first_partial_ms.p50, 0),
        number(run.final_ms.p50, 0),
        number(run.cpu_ms_per_chunk),
        number(run.cpu_s_per_audio_s, 3),
        number(run.peak_memory_mb, 0),
    ]


def origin(header: Header) -> str:
    """Return a line on the origin of the figures of live streams."""
    settings = header.settings
    return (
        f"chunks of {settings['chunk_ms']} ms, {REAL_TIME}, {settings['seconds']} s a stream, "
        f"pauses of {settings['pause_s']} s; {machine_line(header)}"
    )
