"""The figures of a run of whole recordings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from conch.bench.load import Load
from conch.bench.records import Flat
from conch.bench.samples import Sample
from conch.bench.speed import Latency, latency_ms, rtfx
from conch.scoring.error_rates import (
    Accuracy,
    Metric,
    Scoring,
    accuracy,
    language_of_texts,
    word_errors,
)
from conch.wire.result import Transcript, summed_stages


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
