"""`conch bench offline`: whole recordings, in a closed loop or paced, against a running server.

The report is one JSON object. Of every run, and of the first one at the top level too, it holds

    load                    "closed loop" or "paced"
    concurrency, rate       clients of a closed loop, or requests a second of a paced load; the
                            other one is null
    rtfx                    seconds of audio answered per second of wall clock
    wer, wer_by_source      fractions; null where no reference is given
    reference_words         what `wer` is made of: words after the normaliser, and of them
    substitutions           wrong ones,
    deletions, insertions   missing ones, and words that nobody said
    deleted_runs            runs of three and more deleted words in a row, in order of time:
                            [{path, start, end, words, first_word, end_word}], with seconds of the
                            recording and places in its reference
    latency_ms              p50 p90 p95 p99 mean max, from the client's call to its return; paced,
                            from when the request was due
    audio_s, wall_s         what `rtfx` is made of
    utterances, errors      requests sent, and those of them answered with an error
    error_messages          [{path, message}]
    stages                  by component: mean calls and ms of a request, timed by the server;
                            calls in flight together each count
    peak_memory_mb          all processes of the server together, from its start to the end of the
    memory_by_process_mb    run (see `conch.bench.memory`), and each one's part at that moment;
                            null when the server is not the benchmark's own
    versus                  by baseline: rtfx_ratio, wer_difference (a fraction; above 0 is worse),
                            deleted_runs_alone (those of which the baseline has deleted no word)

and once `benchmark`, `runs` (one for each concurrency and rate), `baselines` (by name: rtfx, wer,
latency_ms and so on, with their own options), `options` (of the requests, defaults included),
`send`, `warmup`, `manifest`, `split`, `source`, `limit`, `machine`, `versions`, `command`,
`started_at`, `joining` (of joined recordings: how they were made) and `recordings` (of each, what
is in it and when).
"""

import asyncio
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timezone
from itertools import cycle, islice
from pathlib import Path
from typing import Any, Literal

from numpy.typing import NDArray
from tqdm import tqdm

from conch.bench import baseline, require
from conch.bench.figures import baseline_figures, run_figures, versus
from conch.bench.joined import Joining
from conch.bench.joined_files import recordings_folder, write_recordings
from conch.bench.load import Load, Offer, Outcome, closed_loop, offer
from conch.bench.machine import command, machine, versions
from conch.bench.manifest import Utterance, chosen, comparable
from conch.bench.memory import MemorySampler
from conch.bench.progress import progress
from conch.bench.recordings import decode
from conch.bench.served import model_parameters, triton_version
from conch.client import AsyncClient
from conch.options import RecognitionOptions
from conch.result import Transcript
from conch.server import ServerConfig, TritonServer
from conch.server.repositories import shipped_repositories

Send = Literal["waveform", "file"]

WARMUP_CLIENTS = 4
"""That send the uncounted requests before a paced load."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfflineBenchmark:
    """What is measured, and how."""

    manifest: Path
    split: str | None = None
    source: str | None = None
    limit: int | None = None
    """At most so many utterances or, joined, so many recordings; see
    `conch.bench.manifest.spread`."""
    joining: Joining | None = None
    """How utterances are joined to recordings; None sends them as they are."""
    save: Path | None = None
    """An empty folder to keep joined recordings in; None removes them."""
    concurrency: Sequence[int] = (1,)
    """Clients of the closed loop; one run for each number."""
    rates: Sequence[float] = ()
    """Requests a second of a paced load; one more run for each."""
    url: str | None = None
    """Of a running server; None starts one for the benchmark."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Request options that are not the server's defaults."""
    send: Send = "waveform"
    """Whether requests carry samples or the file as it is, for the server to decode."""
    warmup: int = 8
    """Requests before each run that are not counted; utterances where recordings are joined."""
    baseline: Literal["faster-whisper"] | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    """An utterance, ready to be sent."""

    utterance: Utterance
    audio: NDArray[Any] | bytes
    sample_rate: int
    """Hz."""
    duration_s: float


def run(benchmark: OfflineBenchmark) -> dict[str, Any]:
    """Measure and return the report.

    The server is measured first and, where it is the benchmark's own, stopped before a baseline
    starts, so that neither takes cores or memory from the other.

    Raises:
        BenchError: the manifest, an audio file or a package is missing.
        ServerError: no server answers, or it cannot be started.
    """
    with _heard(benchmark) as (utterances, warmup):
        if benchmark.baseline:
            require("faster_whisper")
        utterances = comparable(utterances)
        report = {
            **header("offline", benchmark),
            "options": asdict(RecognitionOptions.parse(benchmark.options)),
            "joining": asdict(benchmark.joining) if benchmark.joining else None,
            "recordings": [_contents(utterance) for utterance in utterances if utterance.parts],
        }
        samples = load_samples(utterances, benchmark.send)
        first = load_samples(warmup, benchmark.send)
        with own_or_running(benchmark.url) as (url, memory):
            report["versions"]["triton"] = triton_version(url)
            served = model_parameters(url, "attention_encoder") if benchmark.baseline else {}
            runs = [
                measure(url, samples, first, offered, benchmark.options, memory)
                for offered in _offers(benchmark)
            ]
        baselines = {}
        if benchmark.baseline:
            baselines[baseline.NAME] = _faster_whisper(samples, served, warmup)
    for figures in runs:
        figures["versus"] = {name: versus(figures, other) for name, other in baselines.items()}
    return {**report, **runs[0], "runs": runs, "baselines": baselines}


@contextmanager
def _heard(benchmark: OfflineBenchmark) -> Iterator[tuple[list[Utterance], list[Utterance]]]:
    """Yield what is sent, and what is sent before the clock starts.

    Long recordings are joined here, and warmed up for by utterances, which do as well.
    """
    if benchmark.joining is None:
        utterances = chosen(benchmark)
        yield utterances, list(islice(cycle(utterances), benchmark.warmup))
        return
    utterances = chosen(replace(benchmark, limit=None))
    with recordings_folder(benchmark.save) as folder:
        recordings = write_recordings(utterances, benchmark.joining, folder, benchmark.limit)
        yield recordings, list(islice(cycle(utterances), benchmark.warmup))


def _contents(recording: Utterance) -> dict[str, Any]:
    return {
        "path": str(recording.path),
        "utterances": [
            {
                "path": str(part.path),
                "start": round(part.start_s, 3),
                "end": round(part.end_s, 3),
                "text": part.text,
            }
            for part in recording.parts
        ],
    }


def load_samples(utterances: Sequence[Utterance], send: Send) -> list[Sample]:
    """Read and decode the recordings.

    Raises:
        BenchError: a file is missing or not audio.
    """
    samples = []
    with progress("reading audio", len(utterances)) as bar:
        for utterance in utterances:
            recording = decode(utterance.path)
            audio = recording.waveform if send == "waveform" else utterance.path.read_bytes()
            samples.append(Sample(utterance, audio, recording.sample_rate, recording.duration_s))
            bar.update()
    return samples


async def send_all(
    url: str,
    samples: Sequence[Sample],
    *,
    offered: Offer,
    options: Mapping[str, Any],
    warmup: Sequence[Sample] = (),
    title: str = "",
) -> Load[Transcript]:
    """Send every sample once under a load, after those of `warmup`, which are not counted."""
    async with AsyncClient(url, connections=offered.connections) as client:

        async def transcribe(sample: Sample) -> Transcript:
            return await client.transcribe(sample.audio, sample_rate=sample.sample_rate, **options)

        async def send(index: int) -> Transcript:
            return await transcribe(samples[index])

        async def warm_up(index: int) -> Transcript:
            return await transcribe(warmup[index])

        await closed_loop(warm_up, len(warmup), offered.concurrency or WARMUP_CLIENTS)
        with progress(title or offered.title, len(samples)) as bar:

            def show(outcome: Outcome[Transcript]) -> None:
                if outcome.error:
                    path = samples[outcome.index].utterance.path
                    tqdm.write(f"{path}: {outcome.error}", file=sys.stderr)
                bar.update()

            return await offer(send, len(samples), offered, show)


def _offers(benchmark: OfflineBenchmark) -> list[Offer]:
    closed = [Offer(concurrency=clients) for clients in benchmark.concurrency]
    return closed + [Offer(rate=rate) for rate in benchmark.rates]


def header(name: str, benchmark: Any) -> dict[str, Any]:
    """Return what a report says besides its figures.

    Args:
        name: of the benchmark.
        benchmark: a dataclass; what of it is not a number, a text or nothing is left out.
    """
    plain = {
        key: str(value) if isinstance(value, Path) else value
        for key, value in asdict(benchmark).items()
        if isinstance(value, Path | str | int | float | None)
    }
    return {
        "benchmark": name,
        "started_at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "command": command(),
        "machine": machine(),
        "versions": versions(),
        **plain,
    }


@contextmanager
def own_or_running(url: str | None) -> Iterator[tuple[str, MemorySampler | None]]:
    """Yield the address of a running server, or of one started for the benchmark."""
    if url is not None:
        yield url, None
        return
    with own_server() as (own_url, memory):
        yield own_url, memory


@contextmanager
def own_server(*model_repositories: Path) -> Iterator[tuple[str, MemorySampler]]:
    """Yield the address of a server that is started for the benchmark.

    Args:
        model_repositories: folders of models; without one, those that Conch comes with.
    """
    print("starting a server", file=sys.stderr)
    config = ServerConfig(
        model_repositories=model_repositories or shipped_repositories(), log_level="warning"
    )
    # The descendants of this process are the server's alone, so that loading is seen as well.
    with (
        MemorySampler(os.getpid(), with_root=False) as memory,
        TritonServer(config) as server,
    ):
        yield server.http_url, memory


def measure(
    url: str,
    samples: Sequence[Sample],
    warmup: Sequence[Sample],
    offered: Offer,
    options: Mapping[str, Any],
    memory: MemorySampler | None,
) -> dict[str, Any]:
    """Send every sample under a load and return the figures of the run."""
    load = asyncio.run(send_all(url, samples, offered=offered, options=options, warmup=warmup))
    peak = memory.peak() if memory else None
    return {
        "load": offered.load,
        "concurrency": offered.concurrency,
        "rate": offered.rate,
        **run_figures(
            [sample.utterance for sample in samples],
            [sample.duration_s for sample in samples],
            load,
        ),
        "peak_memory_mb": peak.total_mb if peak else None,
        "memory_by_process_mb": peak.by_process_mb if peak else None,
    }


def _faster_whisper(
    samples: Sequence[Sample], served: Mapping[str, str], warmup: Sequence[Utterance]
) -> dict[str, Any]:
    utterances = [sample.utterance for sample in samples]
    durations_s = [sample.duration_s for sample in samples]
    job = baseline.faster_whisper_job(
        [utterance.path for utterance in utterances],
        served,
        warmup_paths=[utterance.path for utterance in warmup],
    )
    with progress(baseline.NAME, len(utterances)) as bar:
        measured = baseline.measure(job, on_answer=bar.update)
    return {**baseline_figures(utterances, durations_s, measured), "options": job.options}
