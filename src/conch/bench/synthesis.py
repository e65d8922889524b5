"""Measure speech out: time to the first audio, whether it keeps up with playing, CPU and errors."""

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any

import numpy as np

from conch.bench.figures import Latency, latency_ms, rtfx
from conch.bench.header import Flat, Header, header, origin
from conch.bench.load import LoadResult, Offer, closed_loop, offer, progress
from conch.bench.samples import LoadBenchmark
from conch.bench.servers import server_of, triton_version
from conch.client import AsyncClient, Speech
from conch.scoring.error_rates import accuracy, number, percent, table, word_errors
from conch.wire.result import Transcript, Word
from conch.wire.synthesis import SpokenWord

if TYPE_CHECKING:
    from conch.bench.memory import MemorySampler

WARMUP = 8
"""Uncounted texts before each run."""
RECOGNISED_AT_ONCE = 4
PACED_S = 60.0
"""Least seconds of a paced load."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SynthesisBenchmark(LoadBenchmark):
    """Settings of the benchmark; the texts are those of the manifest."""

    characters: int = 0
    """Length to which texts are joined; 0 leaves each as it is."""
    recognise: bool = False


@dataclass(frozen=True, slots=True)
class TimedSpeech:
    first_s: float
    late_s: float
    """Longest silence of a player that begins with the first audio."""
    speech: Speech
    words: Sequence[SpokenWord]
    """Words with times, if the option `timestamps` is true."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SynthesisRun:
    load: str
    texts: int
    errors: int
    first_audio_ms: Latency
    behind: int
    """Texts of which a player would have run dry."""
    audio_s: float
    rtfx: float | None
    """Seconds of audio for each second of the run: of a paced load the listeners at once."""
    cpu_share: float | None
    """CPU seconds of the server for a second of audio; None if the benchmark did not start it."""
    cpu_by_process_s: Mapping[str, float] = field(default_factory=dict)
    wer: float | None = None
    word_times_ms: float | None = None
    """Median difference between the starts of words as spoken and as recognised."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SynthesisReport:
    header: Flat[Header]
    runs: Sequence[SynthesisRun]


def joined_to(texts: Iterable[str], characters: int) -> list[str]:
    """Return texts joined until each has a number of characters; what is left at the end is out."""
    joined, begun = [], ""
    for text in texts:
        begun = f"{begun} {text}".strip()
        if len(begun) >= characters:
            joined.append(begun)
            begun = ""
    return joined


async def speak(client: AsyncClient, text: str, options: dict[str, Any]) -> TimedSpeech:
    began = time.perf_counter()
    first_s, late_s, audio_s, pieces = 0.0, 0.0, 0.0, list[Any]()
    words: list[SpokenWord] = []
    async with aclosing(client.synthesize_stream(text, **options)) as parts:
        async for part in parts:
            words += (word for sentence in part.spoken.sentences for word in sentence.words)
            if part.has_sound:
                now = time.perf_counter() - began
                first_s = first_s or now
                late_s = max(late_s, now - first_s - audio_s)
                audio_s = part.spoken.duration
                pieces.append(part.waveform)
    return TimedSpeech(first_s, late_s, Speech(np.concatenate(pieces), b"", part.spoken), words)


def run(benchmark: SynthesisBenchmark) -> SynthesisReport:
    texts = joined_to((item.text for item in benchmark.utterances()), benchmark.characters)
    begun = header("synthesis", benchmark)
    # Over HTTP a Triton has no answers in parts.
    with server_of(benchmark.url, benchmark.weights, is_grpc=True) as (url, memory):
        version = triton_version(url, benchmark.headers)
        runs = [
            asyncio.run(_measured(url, texts, offered, benchmark, memory))
            for offered in benchmark.offers
        ]
    return SynthesisReport(header=begun.with_triton(version), runs=runs)


async def _measured(
    url: str,
    texts: Sequence[str],
    offered: Offer,
    benchmark: SynthesisBenchmark,
    memory: "MemorySampler | None",
) -> SynthesisRun:
    """Speak every text once; more for more clients, or for the length of a paced load."""
    options = {**benchmark.options, **({"timestamps": True} if benchmark.recognise else {})}
    count = max(len(texts), offered.concurrency or round(PACED_S * (offered.rate or 0)))
    async with AsyncClient(
        url, connections=offered.connections, headers=benchmark.headers
    ) as client:

        async def send(index: int) -> TimedSpeech:
            return await speak(client, texts[index % len(texts)], options)

        await closed_loop(send, WARMUP, RECOGNISED_AT_ONCE)
        before = memory.cpu_s() if memory else {}
        with progress(offered.title, count) as bar:
            load = await offer(send, count, offered, lambda outcome: bar.update())
        cpu = memory.cpu_since(before) if memory else {}
        wer, word_times_ms = (
            await _recognised(client, texts, load) if benchmark.recognise else (None, None)
        )
        answers = [item.answer for item in load.outcomes if item.answer is not None]
        audio_s = sum(item.speech.spoken.duration for item in answers)
        return SynthesisRun(
            load=offered.title,
            texts=len(load.outcomes),
            errors=len(load.outcomes) - len(answers),
            first_audio_ms=latency_ms([item.first_s for item in answers]),
            behind=sum(item.late_s > 0 for item in answers),
            audio_s=round(audio_s, 1),
            rtfx=rtfx(audio_s, load.wall_s),
            cpu_share=round(sum(cpu.values()) / audio_s, 5) if cpu and audio_s else None,
            cpu_by_process_s=cpu,
            wer=wer,
            word_times_ms=word_times_ms,
        )


async def _recognised(
    client: AsyncClient, texts: Sequence[str], load: LoadResult[TimedSpeech]
) -> tuple[float | None, float | None]:
    """Return word error rate and word time difference of the audio, by the server's best path."""

    async def recognised(index: int) -> Transcript | None:
        timed = load.outcomes[index].answer
        if timed is None:
            return None
        speech = timed.speech
        rate = speech.spoken.sample_rate
        return await client.transcribe(
            speech.waveform, sample_rate=rate, accuracy="best", word_timestamps=True
        )

    answers = await closed_loop(recognised, min(len(texts), len(load.outcomes)), RECOGNISED_AT_ONCE)
    pairs = [*zip(texts, (item.answer for item in answers.outcomes), strict=False)]
    errors = [("", word_errors(text, answer.text if answer else "")) for text, answer in pairs]
    times = [
        difference
        for outcome, (_, answer) in zip(load.outcomes, pairs, strict=False)
        if outcome.answer and answer
        for difference in start_differences(
            outcome.answer.words, [word for part in answer.segments for word in part.words]
        )
    ]
    return accuracy(errors).wer, round(1000 * float(np.median(times)), 1) if times else None


def start_differences(spoken: Sequence[SpokenWord], recognised: Sequence[Word]) -> list[float]:
    """Return how far the starts of the words that both have are apart, in seconds."""
    here, there = (
        ["".join(filter(str.isalnum, word.text.casefold())) for word in words]
        for words in (spoken, recognised)
    )
    same = SequenceMatcher(None, here, there, autojunk=False).get_matching_blocks()
    return [
        abs(spoken[first + index].start - recognised[second + index].start)
        for first, second, size in same
        for index in range(size)
    ]


def markdown(report: SynthesisReport) -> str:
    titles = ["load", "first audio p50", "p99 ms", "behind", "times real time"]
    rows = [
        [
            item.load,
            number(item.first_audio_ms.p50),
            number(item.first_audio_ms.p99),
            f"{item.behind} of {item.texts}",
            number(item.rtfx),
            number(item.cpu_share, 4),
            percent(item.wer),
            number(item.word_times_ms),
            str(item.errors),
        ]
        for item in report.runs
    ]
    shown = table([*titles, "CPU s per audio s", "WER %", "word times ms", "errors"], rows)
    audio_s = sum(item.audio_s for item in report.runs)
    return f"{shown}\n\n{origin(report.header, 'Texts as speech', audio_s)}\n"
