"""The figures of a run of whole recordings: latencies, speed and accuracy."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any

import numpy as np

from conch.bench.header import Flat
from conch.bench.load import Load
from conch.bench.samples import Sample
from conch.scoring.error_rates import (
    Accuracy,
    Metric,
    Scoring,
    accuracy,
    language_of_texts,
    word_errors,
)
from conch.wire.result import Transcript, summed_stages

PERCENTILES = (50, 90, 95, 99)


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """Latencies in milliseconds; None each if no request was answered."""

    p50: float | None = None
    p90: float | None = None
    p95: float | None = None
    p99: float | None = None
    mean: float | None = None
    max: float | None = None

    @property
    def percentiles(self) -> tuple[float | None, ...]:
        return self.p50, self.p90, self.p95, self.p99


def latency_ms(latencies_s: Sequence[float]) -> Latency:
    """Return percentiles, mean and maximum.

    Percentiles are interpolated linearly between the two nearest latencies, as numpy does.
    """
    if not latencies_s:
        return Latency()
    milliseconds = np.asarray(latencies_s, dtype=np.float64) * 1000
    found = [*np.percentile(milliseconds, PERCENTILES), milliseconds.mean(), milliseconds.max()]
    names = [item.name for item in fields(Latency)]
    return Latency(**{k: round(float(v), 3) for k, v in zip(names, found, strict=True)})


def rtfx(audio_s: float, wall_s: float) -> float | None:
    """Return seconds of audio answered per second of wall clock; None without audio."""
    return round(audio_s / wall_s, 3) if audio_s and wall_s else None


@dataclass(frozen=True, slots=True)
class MeanStage:
    """The mean work of a component for a request, timed by the server."""

    calls: float
    ms: float
    """Milliseconds; concurrent calls each count."""


@dataclass(frozen=True, slots=True)
class ErrorMessage:
    path: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFigures:
    """Speed, accuracy and errors of one run."""

    rtfx: float | None
    """Seconds of audio answered per second of wall clock."""
    accuracy: Flat[Accuracy]
    latency_ms: Latency
    """From the client's call to its return; under a paced load, from when the request was due."""
    audio_s: float
    """Seconds of the recordings answered."""
    wall_s: float
    utterances: int
    errors: int
    """Requests that failed; they count in no other figure."""
    error_messages: Sequence[ErrorMessage]
    stages: Mapping[str, MeanStage]


def run_figures(
    samples: Sequence[Sample],
    load: Load[Transcript],
    metric: Metric = "auto",
    options: Mapping[str, Any] = MappingProxyType({}),
) -> RunFigures:
    """Return the figures of a run that sent each sample once."""
    answered = [
        (samples[outcome.index], outcome.answer, outcome.latency_s)
        for outcome in load.outcomes
        if outcome.answer is not None
    ]
    audio_s = sum(sample.duration_s for sample, _, _ in answered)
    errors = [
        (said.source, word_errors(said.text, answer.text, scoring))
        for sample, answer, _ in answered
        for said in [sample.utterance]
        for language in [language_of_texts(options, said.language, answer.language)]
        for scoring in [Scoring.of(metric, language)]
    ]
    return RunFigures(
        rtfx=rtfx(audio_s, load.wall_s),
        accuracy=accuracy(errors),
        latency_ms=latency_ms([latency_s for _, _, latency_s in answered]),
        audio_s=round(audio_s, 3),
        wall_s=round(load.wall_s, 3),
        utterances=len(load.outcomes),
        errors=len(load.outcomes) - len(answered),
        error_messages=[
            ErrorMessage(str(samples[outcome.index].utterance.path), outcome.error)
            for outcome in load.outcomes
            if outcome.answer is None
        ],
        stages=mean_stages([answer for _, answer, _ in answered]),
    )


def mean_stages(transcripts: Sequence[Transcript]) -> dict[str, MeanStage]:
    """Return the mean work per request by component; a request without a call counts 0."""
    number = len(transcripts)
    return {
        name: MeanStage(round(stage.calls / number, 3), round(stage.ms / number, 3))
        for name, stage in summed_stages(item.stages for item in transcripts).items()
    }
