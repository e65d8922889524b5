"""`python -m lab live`: live streams, and what a viewer of them sees.

It sends what `conch bench live` sends. What a viewer sees is judged word by word; see
`lab.live.screen`. The report is one JSON object, `ViewerReport`. The header and the largest run
that kept up are at its top level as well.
"""

import asyncio
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from conch.bench.header import Flat, Header
from conch.bench.live import (
    LiveBenchmark,
    all_runs,
    best_of,
    observed,
    prepared,
    scripts,
)
from conch.bench.live_figures import Script
from conch.bench.load import closed_loop
from conch.bench.samples import Sample
from conch.bench.servers import server_of, triton_version
from conch.client import AsyncClient
from conch.scoring.error_rates import ENGLISH_WORDS, Scoring, word_error_rate
from conch.wire.options import RecognitionOptions
from lab.header import lab_header
from lab.live.figures import ViewedRun, ViewerRecord, viewed
from lab.live.word_times import TimedWord, WordTimes
from lab.telephone import TELEPHONE_SAMPLE_RATE, resampled, telephone

OFFLINE_CLIENTS = 4
"""Clients that send the streams' audio to the offline path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewerBenchmark(LiveBenchmark):
    """Settings of the benchmark."""

    telephone: bool = False
    """Whether the streams are noisy telephone calls at 8 kHz; see `lab.telephone`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewerReport:
    """The report of the benchmark."""

    header: Flat[Header]
    options: RecognitionOptions
    """Options of the streams, defaults included."""
    scoring: str
    """The measure and the normaliser of every error rate."""
    best: Flat[ViewedRun]
    """The largest run that kept up, or the first run if none did."""
    runs: Sequence[ViewedRun]
    """The requested runs in order, then those of `find_largest`."""

    @property
    def rate(self) -> str:
        """Name of the error rate."""
        return self.scoring.partition(",")[0]


def run(benchmark: ViewerBenchmark) -> ViewerReport:
    """Measure and return the report.

    Raises:
        BenchError: the manifest, an audio file or a package is missing.
        ServerError: no server answers, or it cannot be started.
    """
    samples, scoring = prepared(benchmark)
    begun = lab_header("live", benchmark)
    with server_of(benchmark.url, benchmark.weights) as (url, memory):
        version = triton_version(url, benchmark.headers)
        times = WordTimes(samples, benchmark.options, benchmark.headers, scoring)

        def measured(streams: int) -> ViewedRun:
            said = spoken(samples, streams, benchmark)
            known = times.of(url, [index for script in said for index in script.utterances])
            found = observed(url, said, benchmark, memory, ViewerRecord)
            words = [words_of(script, known) for script in said]
            return viewed(found.figures(scoring), found.records, words, scoring, found.cpu_s)

        runs = all_runs(measured, benchmark)
        if benchmark.has_second_pass:
            best = best_of(runs)
            for place, item in enumerate(runs):
                if place < len(benchmark.streams) or item is best:
                    said = spoken(samples, item.streams, benchmark)
                    found = asyncio.run(offline_wer(url, said, benchmark, scoring))
                    runs[place] = replace(item, offline_wer=found)
    return ViewerReport(
        header=begun.with_triton(version),
        options=RecognitionOptions.parse(benchmark.options, live=True),
        scoring=scoring.title,
        best=best_of(runs),
        runs=runs,
    )


def spoken(samples: Sequence[Sample], streams: int, benchmark: ViewerBenchmark) -> list[Script]:
    """Return the script of each stream, on a telephone line if the benchmark asks for one.

    Raises:
        BenchError: the recordings have several sample rates, or one too low for a telephone.
    """
    said = scripts(samples, streams, benchmark)
    if not benchmark.telephone:
        return said
    return [on_telephone(script, seed) for seed, script in enumerate(said)]


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


def words_of(script: Script, times: Mapping[int, Sequence[TimedWord]]) -> list[TimedWord]:
    """Return the reference words of a stream with their times on its clock.

    Args:
        script: of the stream.
        times: words of each utterance, by its index, in seconds from its start.
    """
    return [
        word.after(start)
        for index, (start, _) in zip(script.utterances, script.spans, strict=True)
        for word in times.get(index, ())
    ]


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
            f"lab live: offline WER of {len(said)} streams is not known: {errors[0]}",
            file=sys.stderr,
        )
        return None
    texts = [outcome.answer or "" for outcome in load.outcomes]
    return word_error_rate([script.text for script in said], texts, scoring)
