"""`conch bench streaming`: live streams, each paced in real time, against a running server.

Each stream is utterances joined by pauses. A chunk is sent when its last sample would have been
spoken, or as soon as the one before is answered, and its latency counts from when it was due: a
server that falls behind cannot hide it. The report is one JSON object; of every run, and of the
largest one that kept up at the top level too, it holds

    load, streams           "paced in real time" and how many at once
    keeps_up                whether p99 of the chunk latency is below the chunk's length
    wer                     of the final texts
    offline_wer             of the offline road on the same audio, sent whole; null but for
                            two_pass, where a request failed, and for runs that only
                            `find_largest` made, unless they are at the top level
    chunk_latency_ms        p50 p90 p95 p99 mean max: from when a chunk was due to its answer
    first_partial_ms        from an utterance's start, as spoken, to the first answer with text
    final_ms                from an utterance's end, as spoken, to the answer with its final text:
                            the silence that makes the endpoint is in it
    end_ms                  of END alone, which is among the chunks as well: with two_pass its
                            answer waits for the last second pass
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
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conch.bench.live_figures import Heard, Script, Watch, figures
from conch.bench.load import closed_loop
from conch.bench.manifest import Utterance, chosen, comparable
from conch.bench.measures import word_error_rate
from conch.bench.memory import cpu_by_process, cpu_since
from conch.bench.offline import Sample, header, load_samples, own_or_running
from conch.bench.progress import progress
from conch.bench.served import triton_version
from conch.client import AsyncClient
from conch.errors import BenchError, ConchError
from conch.options import RecognitionOptions

OFFLINE_CLIENTS = 4


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
    warmup_s: float = 5.0
    """Of as many streams before each run, not counted: a server takes memory as streams start."""
    find_largest: bool = False
    """Go on to the largest number that keeps up."""
    url: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


def run(benchmark: StreamingBenchmark) -> dict[str, Any]:
    """Measure and return the report.

    Raises:
        BenchError: the manifest, an audio file or a package is missing.
        ServerError: no server answers, or it cannot be started.
    """
    utterances = comparable(chosen(benchmark))
    samples = load_samples(utterances, "waveform")
    report = {
        **header("streaming", benchmark),
        "options": asdict(RecognitionOptions.parse(benchmark.options, streams=True)),
    }
    with own_or_running(benchmark.url) as (url, memory):
        report["versions"]["triton"] = triton_version(url)

        def measured(streams: int) -> dict[str, Any]:
            said = scripts(samples, streams, benchmark)
            warm_up(url, said, benchmark)
            before = cpu_by_process(os.getpid())
            heard = asyncio.run(all_streams(url, said, benchmark))
            used = cpu_since(os.getpid(), before) if memory else None
            return figures(heard, benchmark.chunk_ms, used)

        runs = [measured(streams) for streams in benchmark.streams]
        asked = len(runs)
        if benchmark.find_largest:
            runs += largest(measured, runs)
        kept_up = [item for item in runs if item["keeps_up"]]
        best = max(kept_up, key=lambda item: item["streams"]) if kept_up else runs[0]
        if benchmark.options.get("mode") == "two_pass":
            others = [item for item in runs[asked:] if item is best]
            for item in (*runs[:asked], *others):
                said = scripts(samples, item["streams"], benchmark)
                item["offline_wer"] = asyncio.run(offline_wer(url, said, benchmark))
    return {**report, **best, "runs": runs}


def largest(
    measured: Callable[[int], dict[str, Any]], runs: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Find the largest number of streams that keeps up, to an eighth; return the further runs.

    The number doubles until one does not keep up; then the gap is halved.

    Args:
        measured: measures so many streams.
        runs: measured already.
    """
    further: list[dict[str, Any]] = []
    while True:
        known = [*runs, *further]
        low = max((run["streams"] for run in known if run["keeps_up"]), default=0)
        failed = [run["streams"] for run in known if not run["keeps_up"] and run["streams"] > low]
        high = min(failed, default=2 * low)
        streams = high if not failed else (low + high) // 2
        if failed and high - low <= max(1, high // 8):
            return further
        further.append(measured(streams))


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


def warm_up(url: str, said: Sequence[Script], benchmark: StreamingBenchmark) -> None:
    """Let the streams say their first seconds."""
    if not benchmark.warmup_s:
        return
    beginnings = [
        replace(script, waveform=script.waveform[: round(benchmark.warmup_s * script.sample_rate)])
        for script in said
    ]
    asyncio.run(all_streams(url, beginnings, benchmark, label="warm-up"))


def _spoken(utterance: Utterance) -> str:
    return utterance.text.strip()


async def all_streams(
    url: str, said: Sequence[Script], benchmark: StreamingBenchmark, label: str = "streams"
) -> list[Heard]:
    """Let all streams speak in real time, each from a moment of its own; `label` names the bar."""
    longest = max(len(script.waveform) / script.sample_rate for script in said)
    with progress(f"{label}: {len(said)}, seconds", round(longest)) as bar:

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


async def offline_wer(
    url: str, said: Sequence[Script], benchmark: StreamingBenchmark
) -> float | None:
    """Return the WER of the offline road, which the second pass takes, on the same audio.

    With VAD even where the streams have none: a second pass gets what is said, without the pauses.

    None, and a line on standard error, where a request fails.
    """
    of_streams = {"mode", "vad", "deadline_ms"}  # which is of each chunk
    if benchmark.options.get("decoder", "attention") == "attention":
        of_streams |= {"hotwords", "hotword_weight", "lm_fusion"}  # of the first pass
    options = {key: value for key, value in benchmark.options.items() if key not in of_streams}

    async with AsyncClient(url) as client:

        async def transcribe(index: int) -> str:
            script = said[index]
            answer = await client.transcribe(
                script.waveform, sample_rate=script.sample_rate, **options
            )
            return answer.text

        load = await closed_loop(transcribe, len(said), OFFLINE_CLIENTS)
    if errors := [outcome.error for outcome in load.outcomes if outcome.error]:
        # What the streams were measured to be is not lost for it.
        print(
            f"conch bench: offline WER of {len(said)} streams is not known: {errors[0]}",
            file=sys.stderr,
        )
        return None
    texts = [outcome.answer or "" for outcome in load.outcomes]
    return word_error_rate([script.text for script in said], texts)


async def _one_stream(
    client: AsyncClient, script: Script, delay_s: float, benchmark: StreamingBenchmark
) -> Heard:
    heard = Heard(script)
    block = script.sample_rate * benchmark.chunk_ms // 1000
    begun = time.perf_counter() + delay_s  # streams do not speak in step
    watch = Watch(heard, has_second_pass=benchmark.options.get("mode") == "two_pass")
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
                if is_last:
                    heard.end_s.append(now - due)
                heard.calls += sum(
                    stage.calls for name, stage in answer.stages.items() if name != "total"
                )
                watch.see(answer, now - begun)
                heard.text = answer.text
    except ConchError as error:
        heard.error = str(error) or type(error).__name__
    return heard
