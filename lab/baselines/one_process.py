"""Measure a baseline that transcribes recordings one after the other in a process of its own."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeAlias, TypeVar

from conch.bench.memory import MB
from conch.component import SAMPLE_RATE, FloatArray
from conch.wire.errors import BenchError
from lab import child
from lab.waveforms import waveform_of

Options = TypeVar("Options")
Transcribe: TypeAlias = Callable[[FloatArray], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job(Generic[Options]):
    paths: tuple[str, ...]
    """Audio files, decoded before the clock starts."""
    options: Options
    warmup_paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BaselineRun:
    texts: tuple[str, ...]
    latencies_s: tuple[float, ...]
    wall_s: float
    """Seconds from the first utterance's start to the last one's text."""
    audio_s: float
    cpu_s: float
    memory_mb: float
    """Peak memory of the child with loading, without its waveforms.

    A server's figure has no audio of its client either.
    """


def measure(
    load: Callable[[Options], Transcribe], job: Job[Options], on_answer: Callable[[], None]
) -> BaselineRun:
    """Run the job in a new process, which loads a model; call `on_answer` at each utterance."""
    answers: list[tuple[str, float]] = []
    totals: dict[str, float] = {}
    with child.running(partial(_work, load), job) as (process, messages, memory):
        for message in messages:
            if isinstance(message, dict):
                totals = message
            else:
                answers.append(message)
                on_answer()
        peak_mb = memory.peak().total_mb
    if not totals:
        raise BenchError(f"the baseline ended early, with status {process.exitcode}")
    return BaselineRun(
        texts=tuple(text for text, _ in answers),
        latencies_s=tuple(latency_s for _, latency_s in answers),
        memory_mb=round(peak_mb - totals.pop("waveforms_mb"), 1),
        **totals,
    )


def _work(load: Callable[[Any], Transcribe], job: Job[Any], say: child.Say) -> None:
    transcribe = load(job.options)
    waveforms = [waveform_of(Path(path)) for path in job.paths]
    for path in job.warmup_paths:
        transcribe(waveform_of(Path(path)))
    first, cpu_before_s = time.perf_counter(), time.process_time()
    for waveform in waveforms:
        started = time.perf_counter()
        text = transcribe(waveform)
        say((text, time.perf_counter() - started))
    say(
        {
            "wall_s": time.perf_counter() - first,
            "cpu_s": time.process_time() - cpu_before_s,
            "audio_s": sum(map(len, waveforms)) / SAMPLE_RATE,
            "waveforms_mb": sum(waveform.nbytes for waveform in waveforms) / MB,
        }
    )
