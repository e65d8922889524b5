"""`conch bench live`: live streams, each paced in real time, against a running server.

Each stream is a sequence of utterances with pauses between them. A chunk is due when its last
sample would have been spoken. It is sent then, or as soon as the chunk before it is answered. Its
latency counts from when it was due, so a server that falls behind cannot hide it. What a viewer
sees is judged word by word; see `conch.bench.screen`. The report is one JSON object, `LiveReport`.
The header and the largest run that kept up are at its top level as well.
"""

import asyncio
import random
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conch.bench.header import PROGRAM, Header, header
from conch.bench.live_figures import LiveRun, Script, StreamOutcome, Watch, figures
from conch.bench.load import closed_loop
from conch.bench.manifest import Utterance, chosen, comparable
from conch.bench.measures import ENGLISH_WORDS, Metric, Scoring, language_of_texts, word_error_rate
from conch.bench.offline import check_packages
from conch.bench.progress import progress
from conch.bench.records import Flat
from conch.bench.samples import Sample, load_samples
from conch.bench.served import triton_version
from conch.bench.target import server_of
from conch.bench.telephone import TELEPHONE_SAMPLE_RATE, resampled, telephone
from conch.bench.word_times import TimedWord, WordTimes
from conch.client import AsyncClient
from conch.wire.errors import BenchError, ConchError
from conch.wire.options import RecognitionOptions

OFFLINE_CLIENTS = 4
"""Clients that send the streams' audio to the offline path."""
STEP_MS = 640
"""Least time over which the starts of streams are spread: the server works in such steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveBenchmark:
    """Settings of the benchmark."""

    manifest: Path
    split: str | None = None
    source: str | None = None
    limit: int | None = None
    streams: Sequence[int] = (8,)
    """Numbers of concurrent streams; one run for each."""
    chunk_ms: int = 640
    seconds: float = 60.0
    """Least seconds of audio of a stream."""
    pause_s: float = 1.5
    """Seconds of silence after each utterance."""
    warmup_s: float = 5.0
    """Uncounted seconds of the same streams before each run: first streams make a server grow."""
    find_largest: bool = False
    """Whether to find the largest number of streams that the server keeps up with."""
    telephone: bool = False
    """Whether the streams are noisy telephone calls at 8 kHz; see `conch.bench.telephone`."""
    metric: Metric = "auto"
    """What errors are counted in."""
    url: str | None = None
    whisper: str = ""
    """Name or folder of the Whisper of a server that the benchmark starts; empty: the default."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Headers of every request; no report may tell them."""
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def has_second_pass(self) -> bool:
        """Whether a second pass corrects each utterance."""
        return RecognitionOptions.parse(self.options, live=True).mode == "two_pass"


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveReport:
    """The report of the benchmark."""

    header: Flat[Header]
    options: RecognitionOptions
    """Options of the streams, defaults included."""
    scoring: str
    """The measure and the normaliser of every error rate."""
    best: Flat[LiveRun]
    """The largest run that kept up, or the first run if none did."""
    runs: Sequence[LiveRun]
    """The requested runs in order, then those of `find_largest`."""

    @property
    def rate(self) -> str:
        """Name of the error rate."""
        return self.scoring.partition(",")[0]


def run(benchmark: LiveBenchmark, program: Sequence[str] = PROGRAM) -> LiveReport:
    """Measure and return the report; `program` is the beginning of the command line.

    Raises:
        BenchError: the manifest, an audio file or a package is missing.
        ServerError: no server answers, or it cannot be started.
    """
    utterances = comparable(chosen(benchmark))
    check_packages(benchmark.url, utterances)
    scoring = scoring_of(utterances, benchmark)
    samples = load_samples(utterances, "waveform")
    begun = header("live", benchmark, program)
    with server_of(benchmark.url, benchmark.whisper) as (url, memory):
        version = triton_version(url, benchmark.headers)
        times = WordTimes(samples, benchmark.options, benchmark.headers, scoring)

        def measured(streams: int) -> LiveRun:
            said = scripts(samples, streams, benchmark)
            asked = [index for script in said for index in script.utterances]
            known = times.of(url, asked)
            said = [replace(with_words(script, known), scoring=scoring) for script in said]
            warm_up(url, said, benchmark)
            before = memory.cpu_s() if memory else {}
            outcomes = asyncio.run(all_streams(url, said, benchmark))
            used = memory.cpu_since(before) if memory else None
            return figures(outcomes, benchmark.chunk_ms, used)

        runs = [measured(streams) for streams in benchmark.streams]
        asked = len(runs)
        if benchmark.find_largest:
            runs += largest(measured, runs)
        best = best_of(runs)
        if benchmark.has_second_pass:
            for place, item in enumerate(runs):
                if place < asked or place == best:
                    said = scripts(samples, item.streams, benchmark)
                    found = asyncio.run(offline_wer(url, said, benchmark, scoring))
                    runs[place] = replace(item, offline_wer=found)
    return LiveReport(
        header=begun.with_triton(version),
        options=RecognitionOptions.parse(benchmark.options, live=True),
        scoring=scoring.title,
        best=runs[best],
        runs=runs,
    )


def scoring_of(utterances: Sequence[Utterance], benchmark: LiveBenchmark) -> Scoring:
    """Return how the texts of streams are compared: by the language of the manifest or the option.

    Raises:
        BenchError: the utterances want several ways; they share streams.
    """
    languages = {language_of_texts(benchmark.options, item.language) for item in utterances}
    found = {Scoring.of(benchmark.metric, language) for language in languages}
    if len(found) > 1:
        raise BenchError(
            "streams join utterances, and those of the languages "
            f"{', '.join(sorted(languages))} are compared in different ways: choose one language "
            "by --split or --source"
        )
    return found.pop()


def best_of(runs: Sequence[LiveRun]) -> int:
    """Return the index of the largest run that kept up, or 0 if none did."""
    kept_up = [place for place, item in enumerate(runs) if item.keeps_up]
    return max(kept_up, key=lambda place: runs[place].streams, default=0)


def largest(measured: Callable[[int], LiveRun], runs: Sequence[LiveRun]) -> list[LiveRun]:
    """Find the largest number of streams that keeps up, to an eighth; return the new runs.

    The number doubles until the server falls behind. Then the gap is halved.

    Args:
        measured: function that measures a number of streams.
        runs: the runs so far.
    """
    further: list[LiveRun] = []
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
    """Return the script of each stream; streams take different utterances in turn.

    Raises:
        BenchError: the recordings have several sample rates, or one too low for a telephone.
    """
    rates = {sample.sample_rate for sample in samples}
    if len(rates) != 1:
        raise BenchError(f"the recordings must share one sample rate; found: {sorted(rates)}")
    rate = rates.pop()
    pause = np.zeros(round(benchmark.pause_s * rate), np.float32)
    order = list(range(len(samples)))
    random.Random(0).shuffle(order)
    found: list[Script] = []
    place = 0
    for _ in range(streams):
        pieces: list[NDArray[np.float32]] = []
        spans, texts, indices, length = [], [], [], 0
        while length < benchmark.seconds * rate:
            index = order[place % len(order)]
            sample = samples[index]
            place += 1
            indices.append(index)
            assert isinstance(sample.audio, np.ndarray)
            spans.append((length / rate, length / rate + sample.duration_s))
            pieces += [sample.audio, pause]
            length += len(sample.audio) + len(pause)
            texts.append(_spoken(sample.utterance))
        script = Script(np.concatenate(pieces), rate, tuple(spans), " ".join(texts), tuple(indices))
        found.append(on_telephone(script, len(found)) if benchmark.telephone else script)
    return found


def on_telephone(script: Script, seed: int) -> Script:
    """Return the script as it is heard over a noisy telephone line.

    Args:
        script: of a stream.
        seed: seed of the line's noise.

    Raises:
        BenchError: the sample rate is too low.
    """
    rate = TELEPHONE_SAMPLE_RATE
    waveform = telephone(
        resampled(script.waveform, script.sample_rate),
        [(round(start * rate), round(end * rate)) for start, end in script.spans],
        np.random.default_rng(seed),
    )
    return replace(script, waveform=waveform, sample_rate=rate)


def with_words(script: Script, times: Mapping[int, Sequence[TimedWord]]) -> Script:
    """Return the script with the times of its reference words on the stream's clock.

    Args:
        script: of a stream.
        times: words of each utterance, by its index, in seconds from its start.
    """
    words = [
        word.after(start)
        for index, (start, _) in zip(script.utterances, script.spans, strict=True)
        for word in times.get(index, ())
    ]
    return replace(script, words=tuple(words))


def warm_up(url: str, said: Sequence[Script], benchmark: LiveBenchmark) -> None:
    """Send the first seconds of the streams, uncounted."""
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
    url: str, said: Sequence[Script], benchmark: LiveBenchmark, label: str = "streams"
) -> list[StreamOutcome]:
    """Send all streams in real time, each with another start; return what came of each.

    Args:
        url: address of the server.
        said: the scripts of the streams.
        benchmark: the settings.
        label: title of the progress bar.
    """
    longest = max(len(script.waveform) / script.sample_rate for script in said)
    with progress(f"{label}: {len(said)}, seconds", round(longest)) as bar:

        async def tick() -> None:
            while True:
                await asyncio.sleep(1)
                bar.update()

        ticking = asyncio.create_task(tick())
        async with AsyncClient(url, connections=2 * len(said), headers=benchmark.headers) as client:
            rng = random.Random(1)
            starts = [rng.uniform(0, max(benchmark.chunk_ms, STEP_MS) / 1000) for _ in said]
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
    url: str, said: Sequence[Script], benchmark: LiveBenchmark, scoring: Scoring = ENGLISH_WORDS
) -> float | None:
    """Return the error rate of the offline path, which the second pass takes, on the same audio.

    The VAD is on even if the streams have none: a second pass gets the utterances alone.

    Returns:
        A fraction; None, with a message on standard error, if a request fails.
    """
    of_streams = {"mode", "vad", "deadline_ms"}  # a deadline applies to each chunk
    if benchmark.options.get("decoder", "attention") == "attention":
        of_streams.add("lm_fusion")  # of the first pass
    options = {key: value for key, value in benchmark.options.items() if key not in of_streams}

    async with AsyncClient(url, headers=benchmark.headers) as client:

        async def transcribe(index: int) -> str:
            script = said[index]
            answer = await client.transcribe(
                script.waveform, sample_rate=script.sample_rate, **options
            )
            return answer.text

        load = await closed_loop(transcribe, len(said), OFFLINE_CLIENTS)
    if errors := [outcome.error for outcome in load.outcomes if outcome.error]:
        # Do not lose the figures of the streams.
        print(
            f"conch bench: offline WER of {len(said)} streams is not known: {errors[0]}",
            file=sys.stderr,
        )
        return None
    texts = [outcome.answer or "" for outcome in load.outcomes]
    return word_error_rate([script.text for script in said], texts, scoring)


async def _one_stream(
    client: AsyncClient, script: Script, delay_s: float, benchmark: LiveBenchmark
) -> StreamOutcome:
    outcome = StreamOutcome(script)
    block = script.sample_rate * benchmark.chunk_ms // 1000
    begun = time.perf_counter() + delay_s  # streams do not speak in step
    watch = Watch(outcome, has_second_pass=benchmark.has_second_pass)
    try:
        # A server that is lost is to be seen.
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
                outcome.chunk_s.append(now - due)
                if is_last:
                    outcome.end_s.append(now - due)
                outcome.calls += sum(
                    stage.calls for name, stage in answer.stages.items() if name != "total"
                )
                watch.see(answer, now - begun)
                outcome.text = answer.text
    except ConchError as error:
        outcome.error = str(error) or type(error).__name__
    return outcome
