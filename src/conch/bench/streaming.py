"""`conch bench streaming`: live streams, each paced in real time, against a running server.

Each stream is utterances joined by pauses. A chunk is sent when its last sample would have been
spoken, or as soon as the one before is answered, and its latency counts from when it was due: a
server that falls behind cannot hide it. The report is one JSON object; of every run, and of the
largest one that kept up at the top level too, it holds

    load, streams           "paced in real time" and how many at once
    keeps_up                whether p99 of the chunk latency is below the chunk's length
    wer                     of the final texts
    chunk_latency_ms        p50 p90 p95 p99 mean max: from when a chunk was due to its answer
    first_partial_ms        from an utterance's start, as spoken, to the first answer with text
    final_ms                from an utterance's end, as spoken, to the answer with its final text:
                            the silence that makes the endpoint is in it
    calls_per_chunk         calls of components, those of second passes left out
    cpu_ms_per_chunk        of the server's processes; null when the server is somebody else's
    cpu_ms_per_chunk_by_process
    orchestration_share     of that CPU, the fraction spent in the processes of speech and Triton
                            itself: everything but components
    chunks, errors, error_messages, audio_s

and once the header that an offline report has.
"""

import asyncio
import os
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conch.bench import require
from conch.bench.manifest import Utterance, chosen
from conch.bench.measures import latency_ms, share_of, word_error_rate
from conch.bench.memory import cpu_by_process, cpu_since
from conch.bench.offline import Sample, header, load_samples, own_or_running, progress
from conch.bench.report import number, percent, table
from conch.bench.served import triton_version
from conch.client import AsyncClient
from conch.errors import BenchError, ConchError
from conch.options import RecognitionOptions
from conch.result import Transcript

LOAD = "paced in real time"

ORCHESTRATION = ("speech", "tritonserver")
"""The processes of a server that compute nothing of speech."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamingBenchmark:
    """What is measured, and how."""

    manifest: Path
    split: str | None = None
    source: str | None = None
    limit: int | None = None
    streams: Sequence[int] = (8,)
    """At once; one run for each number."""
    chunk_ms: int = 640
    seconds: float = 60.0
    """Audio of each stream, at least."""
    pause_s: float = 1.5
    """Silence after each utterance."""
    url: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Script:
    """What one stream says."""

    waveform: NDArray[np.float32]
    sample_rate: int
    spans: tuple[tuple[float, float], ...]
    """Start and end of each utterance, in seconds."""
    text: str


@dataclass(slots=True)
class Heard:
    """What came of one stream."""

    script: Script
    chunk_s: list[float] = field(default_factory=list)
    first_partial_s: list[float] = field(default_factory=list)
    final_s: list[float] = field(default_factory=list)
    calls: int = 0
    text: str = ""
    error: str = ""


def run(benchmark: StreamingBenchmark) -> dict[str, Any]:
    """Measure and return the report.

    Raises:
        BenchError: the manifest, an audio file or a package is missing.
        ServerError: no server answers, or it cannot be started.
    """
    require("jiwer", "whisper_normalizer")
    utterances = chosen(benchmark)
    samples = load_samples(utterances, "waveform")
    report = {
        **header("streaming", benchmark),
        "options": asdict(RecognitionOptions.parse(benchmark.options, streams=True)),
    }
    with own_or_running(benchmark.url) as (url, memory):
        report["versions"]["triton"] = triton_version(url)
        runs = []
        for streams in benchmark.streams:
            before = cpu_by_process(os.getpid())
            heard = asyncio.run(_all_streams(url, scripts(samples, streams, benchmark), benchmark))
            used = cpu_since(os.getpid(), before) if memory else None
            runs.append(figures(heard, benchmark.chunk_ms, used))
    kept_up = [item for item in runs if item["keeps_up"]]
    best = max(kept_up, key=lambda item: item["streams"]) if kept_up else runs[0]
    return {**report, **best, "runs": runs}


def scripts(samples: Sequence[Sample], streams: int, benchmark: StreamingBenchmark) -> list[Script]:
    """Return what each stream says: different utterances, in turn.

    Raises:
        BenchError: the recordings have several sample rates.
    """
    rates = {sample.sample_rate for sample in samples}
    if len(rates) != 1:
        raise BenchError(f"the recordings of a stream have one sample rate; found: {sorted(rates)}")
    rate = rates.pop()
    pause = np.zeros(round(benchmark.pause_s * rate), np.float32)
    order = list(range(len(samples)))
    random.Random(0).shuffle(order)
    found, place = [], 0
    for _ in range(streams):
        pieces: list[NDArray[np.float32]] = []
        spans, texts, length = [], [], 0
        while length < benchmark.seconds * rate:
            sample = samples[order[place % len(order)]]
            place += 1
            assert isinstance(sample.audio, np.ndarray)
            spans.append((length / rate, length / rate + sample.duration_s))
            pieces += [sample.audio, pause]
            length += len(sample.audio) + len(pause)
            texts.append(_spoken(sample.utterance))
        found.append(Script(np.concatenate(pieces), rate, tuple(spans), " ".join(texts)))
    return found


def _spoken(utterance: Utterance) -> str:
    return utterance.text.strip()


async def _all_streams(
    url: str, said: Sequence[Script], benchmark: StreamingBenchmark
) -> list[Heard]:
    longest = max(len(script.waveform) / script.sample_rate for script in said)
    with progress(f"{len(said)} streams, seconds", round(longest)) as bar:

        async def tick() -> None:
            while True:
                await asyncio.sleep(1)
                bar.update()

        ticking = asyncio.create_task(tick())
        async with AsyncClient(url, connections=2 * len(said)) as client:
            rng = random.Random(1)
            starts = [rng.uniform(0, benchmark.chunk_ms / 1000) for _ in said]
            try:
                return await asyncio.gather(
                    *(
                        _one_stream(client, script, start, benchmark)
                        for script, start in zip(said, starts, strict=True)
                    )
                )
            finally:
                ticking.cancel()


async def _one_stream(
    client: AsyncClient, script: Script, delay_s: float, benchmark: StreamingBenchmark
) -> Heard:
    heard = Heard(script)
    block = script.sample_rate * benchmark.chunk_ms // 1000
    begun = time.perf_counter() + delay_s  # streams do not speak in step
    watch = _Watch(heard, has_second_pass=benchmark.options.get("mode") == "two_pass")
    try:
        async with client.live(sample_rate=script.sample_rate, **benchmark.options) as stream:
            for start in range(0, len(script.waveform), block):
                chunk = script.waveform[start : start + block]
                due = begun + (start + len(chunk)) / script.sample_rate
                await asyncio.sleep(max(0.0, due - time.perf_counter()))
                is_last = start + block >= len(script.waveform)
                answer = await (stream.finish(chunk) if is_last else stream.send(chunk))
                now = time.perf_counter()
                heard.chunk_s.append(now - due)
                heard.calls += sum(
                    stage.calls for name, stage in answer.stages.items() if name != "total"
                )
                watch.see(answer, now - begun)
                heard.text = answer.text
    except ConchError as error:
        heard.error = str(error) or type(error).__name__
    return heard


class _Watch:
    """Notes when the text of each utterance is first seen, and when it is final."""

    def __init__(self, heard: Heard, *, has_second_pass: bool) -> None:
        self._heard, self._has_second_pass = heard, has_second_pass
        self._num_words = 0
        self._partial_known: set[int] = set()
        self._final_known: set[int] = set()

    def see(self, answer: Transcript, now_s: float) -> None:
        """Take an answer that came `now_s` after the stream's first sample was spoken."""
        spans = self._heard.script.spans
        num_words = len(answer.text.split())
        if num_words > self._num_words:
            # The utterance that is being spoken, or has just been.
            index = max(place for place, (start, _) in enumerate(spans) if start <= now_s)
            if index not in self._partial_known:
                self._partial_known.add(index)
                self._heard.first_partial_s.append(now_s - spans[index][0])
        self._num_words = num_words
        for segment in answer.segments:
            is_final = segment.passes == 2 or not self._has_second_pass or bool(segment.error)
            if is_final and segment.index not in self._final_known:
                self._final_known.add(segment.index)
                # A segment ends with some silence, and so may a recording.
                ends = [end for start, end in spans if start < segment.end]
                self._heard.final_s.append(now_s - min(segment.end, ends[-1]))


def figures(
    heard: Sequence[Heard], chunk_ms: int, used_cpu_s: Mapping[str, float] | None
) -> dict[str, Any]:
    """Return what a run says."""
    chunks = sum(len(item.chunk_s) for item in heard)
    latency = latency_ms([value for item in heard for value in item.chunk_s])
    failed = [item for item in heard if item.error]
    answered = [item for item in heard if not item.error]
    p99 = latency["p99"]
    return {
        "load": LOAD,
        "streams": len(heard),
        "keeps_up": not failed and p99 is not None and p99 < chunk_ms,
        "wer": word_error_rate(
            [item.script.text for item in answered], [item.text for item in answered]
        ),
        "chunk_latency_ms": latency,
        "first_partial_ms": latency_ms([v for item in heard for v in item.first_partial_s]),
        "final_ms": latency_ms([v for item in heard for v in item.final_s]),
        "calls_per_chunk": round(sum(item.calls for item in heard) / max(1, chunks), 3),
        "cpu_ms_per_chunk": (
            round(1000 * sum(used_cpu_s.values()) / max(1, chunks), 3) if used_cpu_s else None
        ),
        "cpu_ms_per_chunk_by_process": {
            name: round(1000 * seconds / max(1, chunks), 3)
            for name, seconds in (used_cpu_s or {}).items()
        },
        "orchestration_share": share_of(used_cpu_s or {}, ORCHESTRATION),
        "chunks": chunks,
        "audio_s": round(
            sum(len(item.script.waveform) / item.script.sample_rate for item in heard), 3
        ),
        "errors": len(failed),
        "error_messages": [item.error for item in failed],
    }


def markdown(report: Mapping[str, Any]) -> str:
    """Return the table of a report and a line on where it comes from."""
    header = ["streams", "keeps up", *(f"chunk p{p} ms" for p in (50, 90, 95, 99))]
    header += ["first partial p50 ms", "final p50 ms", "calls/chunk", "CPU ms/chunk"]
    header += ["of it orchestration %", "WER %"]
    rows = [
        [
            str(item["streams"]),
            "yes" if item["keeps_up"] else "no",
            *(number(item["chunk_latency_ms"][f"p{p}"], 0) for p in (50, 90, 95, 99)),
            number(item["first_partial_ms"]["p50"], 0),
            number(item["final_ms"]["p50"], 0),
            number(item["calls_per_chunk"], 2),
            number(item["cpu_ms_per_chunk"]),
            percent(item["orchestration_share"]),
            percent(item["wer"]),
        ]
        for item in report["runs"]
    ]
    machine, versions = report["machine"], report["versions"]
    where = (
        f"chunks of {report['chunk_ms']} ms, {LOAD}, {report['seconds']:g} s a stream, pauses of "
        f"{report['pause_s']:g} s; {machine['cpu']}, {machine['cores']} cores, "
        f"{machine['memory_gb']:g} GB; Triton {versions['triton']}, Python {versions['python']}; "
        f"{report['started_at']}"
    )
    errors = [f"**{item}**" for run in report["runs"] for item in run["error_messages"][:1]]
    return "\n\n".join([f"`{report['command']}`", table(header, rows), *errors, where]) + "\n"
