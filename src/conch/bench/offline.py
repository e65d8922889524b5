"""`conch bench offline`: whole recordings, in a closed loop or paced, against a running server."""

import asyncio
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from conch.bench.figures import RunFigures, run_figures
from conch.bench.header import Flat, Header, header, origin
from conch.bench.load import LoadResult, Offer, Outcome, closed_loop, offer, progress
from conch.bench.samples import LoadBenchmark, Sample, Send, comparable, load_samples
from conch.bench.servers import NO_HEADERS, server_of, triton_version
from conch.client import AsyncClient
from conch.scoring.error_rates import Metric, number, percent, table
from conch.wire.options import RecognitionOptions
from conch.wire.result import Transcript

if TYPE_CHECKING:
    from conch.bench.memory import Memory, MemorySampler

WARMUP_CLIENTS = 4
"""Clients that send the uncounted requests before a paced load."""
COLUMNS = ("system", "load", "RTFx", "WER %", "p50 ms", "p90 ms", "p95 ms", "p99 ms", "peak MB")
CER_COLUMNS = ("system", "load", "characters", "sub", "del", "ins", "CER %")


@dataclass(frozen=True, slots=True, kw_only=True)
class OfflineBenchmark(LoadBenchmark):
    accuracy: Sequence[str] = ()
    """Presets to compare; every load is offered with each. Empty: only that of `options`."""
    send: Send = "waveform"
    warmup: int = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class OfflineRun:
    load: str
    concurrency: int | None
    rate: float | None
    accuracy: str = ""
    """Preset of the requests; empty if none were compared."""
    figures: Flat[RunFigures]
    peak_memory_mb: float | None
    """None for a server that the benchmark did not start; see `conch.bench.memory`."""
    memory_by_process_mb: Mapping[str, float] | None

    @property
    def title(self) -> str:
        return Offer(concurrency=self.concurrency, rate=self.rate).title

    @property
    def system(self) -> str:
        return f"conch, {self.accuracy}" if self.accuracy else "conch"


@dataclass(frozen=True, slots=True, kw_only=True)
class OfflineReport:
    header: Flat[Header]
    options: RecognitionOptions
    first: Flat[OfflineRun]
    runs: Sequence[OfflineRun]


@dataclass(frozen=True, slots=True)
class Measured:
    offered: Offer
    samples: Sequence[Sample]
    load: LoadResult[Transcript]
    memory: "Memory | None"
    """Peak memory of a server that the benchmark started, else None."""
    accuracy: str = ""
    metric: Metric = "auto"
    options: Mapping[str, Any] = field(default_factory=dict)

    def run(self) -> OfflineRun:
        return OfflineRun(
            load=self.offered.load,
            concurrency=self.offered.concurrency,
            rate=self.offered.rate,
            accuracy=self.accuracy,
            figures=run_figures(self.samples, self.load, self.metric, self.options),
            peak_memory_mb=self.memory.total_mb if self.memory else None,
            memory_by_process_mb=self.memory.by_process_mb if self.memory else None,
        )


def run(benchmark: OfflineBenchmark) -> OfflineReport:
    utterances = comparable(benchmark.utterances())
    begun = header("offline", benchmark)
    samples = load_samples(utterances, benchmark.send)
    warmup = list(islice(cycle(samples), benchmark.warmup))
    with server_of(benchmark.url, benchmark.weights) as (url, memory):
        version = triton_version(url, benchmark.headers)
        runs = [
            measure(url, samples, warmup, offered, benchmark, memory, accuracy=accuracy).run()
            for accuracy in benchmark.accuracy or ("",)
            for offered in benchmark.offers
        ]
    return OfflineReport(
        header=begun.with_triton(version),
        options=RecognitionOptions.parse(benchmark.options),
        first=runs[0],
        runs=runs,
    )


def measure(
    url: str,
    samples: Sequence[Sample],
    warmup: Sequence[Sample],
    offered: Offer,
    benchmark: LoadBenchmark,
    memory: "MemorySampler | None",
    *,
    accuracy: str = "",
) -> Measured:
    """Send `warmup` uncounted, then every sample once under a load; return the outcomes."""
    options = benchmark.options
    job = send_all(
        url,
        samples,
        offered=offered,
        options={**options, "accuracy": accuracy} if accuracy else options,
        warmup=warmup,
        title=", ".join(filter(None, (accuracy, offered.title))),
        headers=benchmark.headers,
    )
    load = asyncio.run(job)
    peak = memory.peak() if memory else None
    return Measured(offered, samples, load, peak, accuracy, benchmark.metric, options)


async def send_all(
    url: str,
    samples: Sequence[Sample],
    *,
    offered: Offer,
    options: Mapping[str, Any],
    warmup: Sequence[Sample] = (),
    title: str = "",
    headers: Mapping[str, str] = NO_HEADERS,
) -> LoadResult[Transcript]:
    async with AsyncClient(url, connections=offered.connections, headers=headers) as client:

        async def transcribe(sample: Sample) -> Transcript:
            return await client.transcribe(sample.audio, sample_rate=sample.sample_rate, **options)

        clients = offered.concurrency or WARMUP_CLIENTS
        await closed_loop(lambda index: transcribe(warmup[index]), len(warmup), clients)
        with progress(title or offered.title, len(samples)) as bar:

            def show(outcome: Outcome[Transcript]) -> None:
                if outcome.error:
                    path = samples[outcome.index].utterance.path
                    tqdm.write(f"{path}: {outcome.error}", file=sys.stderr)
                bar.update()

            return await offer(lambda at: transcribe(samples[at]), len(samples), offered, show)


def markdown(report: OfflineReport) -> str:
    first = report.first.figures
    parts = [
        f"`{report.header.command}`",
        comparison(columns_of(report.runs), [run_cells(run) for run in report.runs], report.runs),
        character_errors(report.runs),
        scoring_line(report.runs),
        origin(report.header, f"{first.utterances} utterances", first.audio_s),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def comparison(
    columns: Sequence[str], rows: Sequence[Sequence[str]], runs: Sequence[OfflineRun]
) -> str:
    errors = sum(run.figures.errors for run in runs)
    failed = f"\n\n**{errors} requests failed and do not count.**"
    return table(columns, rows) + (failed if errors else "")


def columns_of(runs: Sequence[OfflineRun]) -> list[str]:
    """Return `COLUMNS`, with the CER where only characters were counted."""
    rates = [run.figures.accuracy for run in runs]
    is_cer = any(item.cer is not None for item in rates) and all(item.wer is None for item in rates)
    return ["CER %" if is_cer and column == "WER %" else column for column in COLUMNS]


def run_cells(run: OfflineRun) -> list[str]:
    figures = run.figures
    return [
        run.system,
        run.title,
        number(figures.rtfx),
        percent(figures.accuracy.error_rate),
        *(number(value, 0) for value in figures.latency_ms.percentiles),
        number(run.peak_memory_mb, 0),
    ]


def character_errors(runs: Sequence[OfflineRun]) -> str:
    """Return the table of errors in characters; an empty text if none were counted."""
    rows = [
        [
            run.system,
            run.title,
            str(counts.reference_characters),
            *map(str, (counts.substitutions, counts.deletions, counts.insertions)),
            percent(run.figures.accuracy.cer),
        ]
        for run in runs
        if (counts := run.figures.accuracy.character_errors) is not None
    ]
    return table(CER_COLUMNS, rows) if rows else ""


def scoring_line(runs: Sequence[OfflineRun]) -> str:
    """Return the measures and normalisers behind the error rates; empty if there are none."""
    used = {name for run in runs for name in run.figures.accuracy.scoring}
    return f"Error rates: {'; '.join(sorted(used))}." if used else ""
