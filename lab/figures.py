"""Word errors, runs of deleted words, and how a run compares with a baseline."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from conch.bench.figures import Latency, RunFigures, latency_ms, rtfx
from conch.bench.header import Flat
from conch.bench.load import LoadResult
from conch.bench.offline import Measured, OfflineRun
from conch.scoring.error_rates import (
    ENGLISH_WORDS,
    Accuracy,
    Scoring,
    accuracy,
    language_of_texts,
)
from conch.scoring.manifest import ManifestEntry
from conch.wire.result import Transcript
from lab.alignment import DeletedWords, align, parts_of, reference_words
from lab.baselines import faster_whisper, sherpa_onnx_moonshine
from lab.baselines.one_process import BaselineRun

Options = faster_whisper.Options | sherpa_onnx_moonshine.Options


@dataclass(frozen=True, slots=True)
class Spoken:
    utterance: ManifestEntry
    duration_s: float
    text: str
    scoring: Scoring = ENGLISH_WORDS
    """How the text is compared with the reference."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Versus:
    """A run compared with a baseline; None if one of the two has no figure."""

    rtfx_ratio: float | None
    wer_difference: float | None
    """Of the word error rates, or of those in characters where no words count: a fraction; above 0
    is worse than the baseline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedRun:
    """A run of `conch bench offline` with its deleted words."""

    run: Flat[OfflineRun]
    deleted_runs: Sequence[DeletedWords]
    """Runs of three or more words, in order of time."""
    versus: Mapping[str, Versus] = field(default_factory=dict)
    """By the name of a baseline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineFigures:
    """The figures of a run that apply to a baseline."""

    rtfx: float | None
    accuracy: Flat[Accuracy]
    deleted_runs: Sequence[DeletedWords]
    latency_ms: Latency
    audio_s: float
    wall_s: float
    utterances: int
    cpu_s_per_audio_s: float
    peak_memory_mb: float
    options: Options


def judged_run(measured: Measured) -> JudgedRun:
    """Return the figures of a load; each part of a joined recording is normalised alone."""
    run = measured.run()
    found, deleted_runs = judged(answered(measured))
    figures = replace(run.figures, accuracy=found)
    return JudgedRun(run=replace(run, figures=figures), deleted_runs=deleted_runs)


def answered(measured: Measured) -> list[Spoken]:
    load: LoadResult[Transcript] = measured.load
    scorings = scorings_of(measured)
    return [
        Spoken(sample.utterance, sample.duration_s, outcome.answer.text, scoring)
        for outcome in load.outcomes
        if outcome.answer is not None
        for sample in [measured.samples[outcome.index]]
        for scoring in [scorings[outcome.index]]
    ]


def scorings_of(measured: Measured) -> list[Scoring]:
    """Return how the text of each recording is compared, as `conch bench offline` does it."""
    load: LoadResult[Transcript] = measured.load
    detected = {
        item.index: item.answer.language for item in load.outcomes if item.answer is not None
    }
    languages = [
        language_of_texts(measured.options, sample.utterance.language, detected.get(index, ""))
        for index, sample in enumerate(measured.samples)
    ]
    return [Scoring.of(measured.metric, language) for language in languages]


def baseline_figures(
    utterances: Sequence[ManifestEntry],
    durations_s: Sequence[float],
    run: BaselineRun,
    options: Options,
    scorings: Sequence[Scoring],
) -> BaselineFigures:
    columns = (utterances, durations_s, run.texts, scorings)
    found, deleted_runs = judged([Spoken(*item) for item in zip(*columns, strict=True)])
    return BaselineFigures(
        rtfx=rtfx(run.audio_s, run.wall_s),
        accuracy=found,
        deleted_runs=deleted_runs,
        latency_ms=latency_ms(run.latencies_s),
        audio_s=round(run.audio_s, 3),
        wall_s=round(run.wall_s, 3),
        utterances=len(run.texts),
        cpu_s_per_audio_s=round(run.cpu_s / run.audio_s, 5),
        peak_memory_mb=run.memory_mb,
        options=options,
    )


def versus(run: RunFigures | BaselineFigures, baseline: BaselineFigures) -> Versus:
    ratio = run.rtfx / baseline.rtfx if run.rtfx is not None and baseline.rtfx else None
    wer, other_wer = run.accuracy.error_rate, baseline.accuracy.error_rate
    return Versus(
        rtfx_ratio=None if ratio is None else round(ratio, 4),
        wer_difference=None if wer is None or other_wer is None else round(wer - other_wer, 6),
    )


def judged(spoken: Sequence[Spoken]) -> tuple[Accuracy, list[DeletedWords]]:
    """Return the errors of texts, and every run of at least `MIN_RUN` deleted words.

    Each part of a joined recording is normalised alone.
    """
    errors, deleted_runs = [], list[DeletedWords]()
    for item in spoken:
        words = reference_words(parts_of(item.utterance, item.duration_s), item.scoring)
        counts, deleted = align(item.utterance.path, words, item.text, item.scoring)
        errors.append((item.utterance.source, counts))
        deleted_runs += deleted
    return accuracy(errors), deleted_runs
