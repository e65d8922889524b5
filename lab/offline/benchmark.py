"""Whole recordings by Conch and, on the same ones, by a baseline.

The report is one JSON object, `OfflineComparison`. The header and the first run are at its top
level as well.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import cycle, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from conch.bench.header import Flat, Header
from conch.bench.load import progress
from conch.bench.offline import OfflineBenchmark, measure
from conch.bench.samples import Sample, load_samples
from conch.bench.servers import server_of, triton_version
from conch.scoring import COMPARING, require
from conch.scoring.error_rates import Scoring, language_of
from conch.scoring.manifest import ManifestEntry
from conch.wire.errors import BenchError
from conch.wire.options import RecognitionOptions
from lab.alignment import JoinedUtterance
from lab.baselines import faster_whisper, sherpa_onnx_moonshine
from lab.baselines.one_process import Job
from lab.command import lab_header
from lab.figures import (
    BaselineFigures,
    JudgedRun,
    Options,
    baseline_figures,
    judged_run,
    scorings_of,
    versus,
)
from lab.recordings.files import write_recordings
from lab.recordings.joined import Joining
from lab.served import model_parameters


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonBenchmark(OfflineBenchmark):
    """Settings of the benchmark; `limit` counts joined recordings, if there are any."""

    joining: Joining | None = None
    """How utterances are joined to recordings; None sends them as they are."""
    baseline: str | None = None
    """A name of `faster_whisper.BATCHES` or `sherpa_onnx_moonshine.FORMATS`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfflineComparison:
    header: Flat[Header]
    options: RecognitionOptions
    joining: Joining | None
    recordings: Sequence[JoinedUtterance]
    first: Flat[JudgedRun]
    runs: Sequence[JudgedRun]
    baselines: Mapping[str, BaselineFigures]


def run(benchmark: ComparisonBenchmark) -> OfflineComparison:
    """Measure and return the report.

    The server is measured first and, where it is the benchmark's own, stopped before a baseline
    starts, so that neither takes cores or memory from the other.
    """
    by_sherpa = benchmark.baseline in sherpa_onnx_moonshine.FORMATS
    if by_sherpa and benchmark.joining:
        raise BenchError(f"{benchmark.baseline} hears at most 30 s well: leave out --join")
    with _recordings_and_warmup(benchmark) as (utterances, warmup):
        require(*COMPARING)
        if benchmark.baseline:
            require("sherpa_onnx" if by_sherpa else "faster_whisper", extra="lab")
        header = lab_header("offline", benchmark)
        samples = load_samples(utterances, benchmark.send)
        first = load_samples(warmup, benchmark.send)
        with server_of(benchmark.url, benchmark.weights) as (url, memory):
            header = header.with_triton(triton_version(url, benchmark.headers))
            encoder = "moonshine_encoder" if by_sherpa else "attention_encoder"
            served = model_parameters(url, encoder) if benchmark.baseline else {}
            runs: list[JudgedRun] = []
            scorings: list[Scoring] = []
            for offered in benchmark.offers:
                measured = measure(url, samples, first, offered, benchmark, memory)
                runs.append(judged_run(measured))
                scorings = scorings or scorings_of(measured)
        baselines: dict[str, BaselineFigures] = {}
        if benchmark.baseline:
            language = language_of(str(benchmark.options.get("language", "")))
            baselines[benchmark.baseline] = _baseline(
                benchmark.baseline, samples, served, warmup, language, scorings
            )
    for number, run in enumerate(runs):
        others = {name: versus(run.run.figures, other) for name, other in baselines.items()}
        runs[number] = replace(run, versus=others)
    return OfflineComparison(
        header=header,
        options=RecognitionOptions.parse(benchmark.options),
        joining=benchmark.joining,
        recordings=[item for item in utterances if isinstance(item, JoinedUtterance)],
        first=runs[0],
        runs=runs,
        baselines=baselines,
    )


@contextmanager
def _recordings_and_warmup(
    benchmark: ComparisonBenchmark,
) -> Iterator[tuple[Sequence[ManifestEntry], Sequence[ManifestEntry]]]:
    """Yield the recordings to send, and those to send before the measurement.

    Utterances serve to warm up for joined recordings.
    """
    if benchmark.joining is None:
        utterances = benchmark.utterances()
        yield utterances, list(islice(cycle(utterances), benchmark.warmup))
        return
    utterances = replace(benchmark, limit=None).utterances()
    with TemporaryDirectory(prefix="conch-recordings-") as folder:
        recordings = write_recordings(utterances, benchmark.joining, Path(folder), benchmark.limit)
        yield recordings, list(islice(cycle(utterances), benchmark.warmup))


def _baseline(
    name: str,
    samples: Sequence[Sample],
    served: Mapping[str, str],
    warmup: Sequence[ManifestEntry],
    language: str,
    scorings: Sequence[Scoring],
) -> BaselineFigures:
    utterances = [sample.utterance for sample in samples]
    durations_s = [sample.duration_s for sample in samples]
    paths = tuple(str(utterance.path) for utterance in utterances)
    warmup_paths = tuple(str(utterance.path) for utterance in warmup)
    by: Any = faster_whisper if name in faster_whisper.BATCHES else sherpa_onnx_moonshine
    options: Options = by.options_of(served, language, name)
    job = Job(paths=paths, options=options, warmup_paths=warmup_paths)
    with progress(name, len(utterances)) as bar:
        measured = by.measure(job, bar.update)
    return baseline_figures(utterances, durations_s, measured, options, scorings)
