"""`python -m lab live`: live streams, and what a viewer of them sees.

It sends what `conch bench live` sends. What a viewer sees is judged word by word; see
`lab.live.screen`. The report is one JSON object, `ViewerReport`. The header and the largest run
that kept up are at its top level as well.
"""

import asyncio
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from conch.bench.figures import Script
from conch.bench.header import Flat, Header
from conch.bench.live import LiveBenchmark, all_runs, best_of, observed, prepared, scripts
from conch.bench.load import Offer
from conch.bench.offline import send_all
from conch.bench.servers import server_of, triton_version
from conch.scoring.error_rates import ENGLISH_WORDS, Scoring, word_error_rate
from conch.wire.options import RecognitionOptions
from lab.alignment import TimedWord
from lab.command import lab_header
from lab.live.figures import ViewedRun, ViewerRecord, viewed
from lab.live.word_times import WordTimes
from lab.served import sample_of

OFFLINE_CLIENTS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewerReport:
    header: Flat[Header]
    options: RecognitionOptions
    scoring: str
    """The measure and the normaliser of every error rate."""
    best: Flat[ViewedRun]
    """The largest run that kept up, or the first run if none did."""
    runs: Sequence[ViewedRun]
    """The requested runs in order, then those of `find_largest`."""

    @property
    def rate(self) -> str:
        return self.scoring.partition(",")[0]


def run(benchmark: LiveBenchmark) -> ViewerReport:
    samples, scoring = prepared(benchmark)
    begun = lab_header("live", benchmark)
    with server_of(benchmark.url, benchmark.weights) as (url, memory):
        version = triton_version(url, benchmark.headers)
        times = WordTimes(samples, benchmark.options, benchmark.headers, scoring)

        def measured(streams: int) -> ViewedRun:
            said = scripts(samples, streams, benchmark)
            known = times.of(url, [index for script in said for index in script.utterances])
            watched = observed(url, said, benchmark, memory, ViewerRecord)
            words = [words_of(script, known) for script in said]
            return viewed(watched.figures(scoring), watched.records, words, scoring, watched.cpu_s)

        runs = all_runs(measured, benchmark)
        if benchmark.has_second_pass:
            best = best_of(runs)
            for number, item in enumerate(runs):
                if number < len(benchmark.streams) or item is best:
                    said = scripts(samples, item.streams, benchmark)
                    wer = offline_wer(url, said, benchmark, scoring)
                    runs[number] = replace(item, offline_wer=wer)
    return ViewerReport(
        header=begun.with_triton(version),
        options=RecognitionOptions.parse(benchmark.options, live=True),
        scoring=scoring.title,
        best=best_of(runs),
        runs=runs,
    )


def words_of(script: Script, times: Mapping[int, Sequence[TimedWord]]) -> list[TimedWord]:
    """Return the reference words of a stream on its clock; `times` are those of each utterance."""
    return [
        word.after(start)
        for index, (start, _) in zip(script.utterances, script.spans, strict=True)
        for word in times.get(index, ())
    ]


def offline_wer(
    url: str, said: Sequence[Script], benchmark: LiveBenchmark, scoring: Scoring = ENGLISH_WORDS
) -> float | None:
    """Return the error rate of the offline path, which the second pass takes, on the same audio.

    The VAD is on even if the streams have none: a second pass gets the utterances alone. None, with
    a message on standard error, if a request fails.
    """
    of_streams = {"mode", "vad", "deadline_ms"}  # a deadline applies to each chunk
    if benchmark.options.get("decoder", "attention") == "attention":
        of_streams.add("lm_fusion")  # of the first pass
    options = {key: value for key, value in benchmark.options.items() if key not in of_streams}

    load = asyncio.run(
        send_all(
            url,
            [sample_of(item.waveform, item.sample_rate, item.text) for item in said],
            offered=Offer(concurrency=OFFLINE_CLIENTS),
            options=options,
            title="offline",
            headers=benchmark.headers,
        )
    )
    if errors := [outcome.error for outcome in load.outcomes if outcome.error]:
        # Do not lose the figures of the streams.
        print(
            f"lab live: offline WER of {len(said)} streams is not known: {errors[0]}",
            file=sys.stderr,
        )
        return None
    texts = [outcome.answer.text if outcome.answer else "" for outcome in load.outcomes]
    return word_error_rate([script.text for script in said], texts, scoring)
