"""`python -m lab recordings`: long recordings of several kinds, in one table."""

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import cycle, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from conch.bench.header import Header
from conch.bench.load import Offer
from conch.bench.offline import measure
from conch.bench.progress import progress
from conch.bench.records import Flat
from conch.bench.samples import ServerBenchmark, load_samples
from conch.bench.servers import server_of, triton_version
from conch.scoring import COMPARING, require
from conch.scoring.error_rates import ENGLISH_WORDS
from conch.scoring.manifest import Utterance, select
from conch.wire.errors import BenchError
from conch.wire.options import RecognitionOptions
from lab.baselines import faster_whisper
from lab.figures import BaselineFigures, JudgedRun, Versus, baseline_figures, judged_run, versus
from lab.header import lab_header
from lab.parts import JoinedUtterance
from lab.recordings.files import write_recordings
from lab.recordings.joined import Joining, TooLittleSpeechError
from lab.served import model_parameters

SOURCES = "sources"
"""Name that stands for one case for each source of the manifest."""
SOURCE_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Case:
    """One kind of recordings."""

    name: str
    title: str
    joining: Joining
    source: str | None = None
    """Source of the utterances; None takes all."""


CASES = (
    Case("1min", "1 minute", Joining(seconds=60)),
    Case("5min", "5 minutes", Joining(seconds=300)),
    Case("20min", "20 minutes", Joining(seconds=1200)),
    Case("60min", "60 minutes", Joining(seconds=3600)),
    Case("short-pauses", "pauses of 0.1 to 0.4 s", Joining(seconds=300, pause_s=(0.1, 0.4))),
    Case("long-pauses", "pauses of 1 to 3 s", Joining(seconds=300, pause_s=(1, 3))),
    Case("telephone", "telephone, noise at 15 dB", Joining(seconds=300, is_telephone=True)),
    Case("noise", "noise in the pauses", Joining(seconds=300, pause_s=(1, 3), between="noise")),
    Case("music", "music in the pauses", Joining(seconds=300, pause_s=(1, 3), between="music")),
)
"""Cases; without other words in the title, five minutes and pauses of 0.2 to 0.9 s."""
CASE_NAMES = (*(case.name for case in CASES), SOURCES)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingsBenchmark(ServerBenchmark):
    """Settings of the benchmark; `limit` and `metric` are not used."""

    cases: Sequence[str] = CASE_NAMES
    """Some of `CASE_NAMES`."""
    minutes: float | None = None
    """Most minutes of audio of a case, at least one recording; None takes all."""
    warmup: int = 4
    baseline: Literal["faster-whisper"] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseFigures:
    """A row of the table."""

    name: str
    title: str
    joining: Joining
    """How utterances are joined."""
    source: str | None
    """Source of the utterances; None is all."""
    minutes: float
    """Amount of audio."""
    conch: JudgedRun
    """Figures with one client."""
    baseline: BaselineFigures | None = None
    versus: Versus | None = None
    took_s: float
    """Seconds for Conch and the baseline together, with warming up."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A case without enough speech."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingsReport:
    """The report of the benchmark."""

    header: Flat[Header]
    options: RecognitionOptions
    """Options of the requests, defaults included."""
    cases: Sequence[CaseFigures]
    """In the order of the table."""
    left_out: Sequence[LeftOut]


def run(benchmark: RecordingsBenchmark) -> RecordingsReport:
    """Measure and return the report.

    One server answers all cases, one recording at a time. The baseline gets the same files after
    the server has stopped, if the benchmark started it.

    Raises:
        BenchError: the manifest, an audio file or a package is missing, or no case has
            enough speech.
        ServerError: no server answers, or it cannot be started.
    """
    if benchmark.baseline:
        require("faster_whisper", extra="lab")
    utterances = benchmark.utterances()
    require(*COMPARING)
    warmup = list(islice(cycle(utterances), benchmark.warmup))
    header = lab_header("recordings", benchmark)
    with TemporaryDirectory(prefix="conch-recordings-") as folder:
        made, left_out = _made(benchmark, utterances, Path(folder))
        with server_of(benchmark.url) as (url, memory):
            header = header.with_triton(triton_version(url))
            served = model_parameters(url, "attention_encoder") if benchmark.baseline else {}
            first = load_samples(warmup, "waveform")
            rows = []
            for case, recordings in made:
                started = time.monotonic()
                samples = load_samples(recordings, "waveform")
                seconds = sum(sample.duration_s for sample in samples)
                _say(f"{case.title}: recordings: {len(samples)}, {seconds / 60:.1f} min")
                one = Offer(concurrency=1)
                measured = measure(url, samples, first, one, benchmark, memory)
                found = judged_run(measured)
                # Release minutes of samples before the next case is measured.
                del samples, measured
                took_s = time.monotonic() - started
                _say(f"{case.title}: conch took {took_s:.0f} s")
                rows.append(_row(case, found, seconds, took_s))
        if benchmark.baseline:
            rows = [
                _compared(row, recordings, served, warmup)
                for row, (_, recordings) in zip(rows, made, strict=True)
            ]
    return RecordingsReport(
        header=header,
        options=RecognitionOptions.parse(benchmark.options),
        cases=rows,
        left_out=left_out,
    )


def chosen_cases(names: Sequence[str], sources: Sequence[str]) -> list[Case]:
    """Return the cases of some names, in the order of the table, one for each source last."""
    named = [case for case in CASES if case.name in names]
    of_sources = [
        Case(f"source:{source}", source, Joining(seconds=SOURCE_SECONDS), source)
        for source in sources
    ]
    return [*named, *(of_sources if SOURCES in names else [])]


def _made(
    benchmark: RecordingsBenchmark, utterances: Sequence[Utterance], folder: Path
) -> tuple[list[tuple[Case, list[JoinedUtterance]]], list[LeftOut]]:
    """Write the recordings of every case; return them, and the cases that lack speech."""
    made: list[tuple[Case, list[JoinedUtterance]]] = []
    left_out: list[LeftOut] = []
    sources = list(dict.fromkeys(item.source for item in utterances if item.source))
    for place, case in enumerate(chosen_cases(benchmark.cases, sources)):
        own_folder = folder / str(place)
        own_folder.mkdir()
        try:
            kept = select(utterances, source=case.source)
            limit = _limit(case.joining.seconds, benchmark.minutes)
            made.append((case, write_recordings(kept, case.joining, own_folder, limit)))
        except TooLittleSpeechError as error:
            _say(f"{case.title} is left out: {error}")
            left_out.append(LeftOut(case.name, str(error)))
    if not made:
        reasons = "; ".join(item.reason for item in left_out)
        raise BenchError(f"no case can be measured: {reasons or 'the manifest names no source'}")
    return made, left_out


def _limit(seconds: float, minutes: float | None) -> int | None:
    return None if minutes is None else max(1, int(60 * minutes / seconds))


def _row(case: Case, conch: JudgedRun, audio_s: float, took_s: float) -> CaseFigures:
    return CaseFigures(
        name=case.name,
        title=case.title,
        joining=case.joining,
        source=case.source,
        minutes=round(audio_s / 60, 2),
        conch=conch,
        took_s=round(took_s, 1),
    )


def _compared(
    row: CaseFigures,
    recordings: Sequence[JoinedUtterance],
    served: Mapping[str, str],
    warmup: Sequence[Utterance],
) -> CaseFigures:
    """Return the row with the baseline's figures for the same recordings."""
    started = time.monotonic()
    job = faster_whisper.faster_whisper_job(
        [recording.path for recording in recordings],
        served,
        warmup_paths=[utterance.path for utterance in warmup],
    )
    with progress(f"{faster_whisper.NAME}: {row.title}", len(recordings)) as bar:
        found = faster_whisper.measure(job, on_answer=bar.update)
    durations_s = [recording.parts[-1].end_s for recording in recordings]
    took_s = time.monotonic() - started
    _say(f"{row.title}: {faster_whisper.NAME} took {took_s:.0f} s")
    scorings = [ENGLISH_WORDS] * len(recordings)
    figures = baseline_figures(recordings, durations_s, found, job.options, scorings)
    return replace(
        row,
        baseline=figures,
        versus=versus(row.conch.scored, figures.scored),
        took_s=round(row.took_s + took_s, 1),
    )


def _say(message: str) -> None:
    print(message, file=sys.stderr)
