"""Measure a baseline that hears recordings one after the other in a process of its own.

`measure` starts the baseline's module (see `lab.child`), which answers with a message per recording
and a last one with the times.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from conch.bench.memory import MB
from conch.component import SAMPLE_RATE, FloatArray
from conch.wire.errors import BenchError
from lab import child
from lab.waveforms import waveform_of

Options = TypeVar("Options")


@dataclass(frozen=True, slots=True, kw_only=True)
class Job(Generic[Options]):
    """The job of the child."""

    paths: tuple[str, ...]
    """Audio files, decoded before the clock starts."""
    options: Options
    """A dataclass of the baseline."""
    warmup_paths: tuple[str, ...] = ()
    """Audio files transcribed before the clock starts."""


@dataclass(frozen=True, slots=True)
class BaselineRun:
    """The measurements of the child."""

    texts: tuple[str, ...]
    latencies_s: tuple[float, ...]
    wall_s: float
    """Seconds from the first utterance's start to the last one's text."""
    audio_s: float
    cpu_s: float
    """CPU seconds of all threads during the measurement."""
    memory_mb: float
    """Peak memory of the child with loading, without its waveforms.

    A server's figure has no audio of its client either.
    """


def measure(module: str, job: Job[Any], on_answer: Callable[[], None]) -> BaselineRun:
    """Run the job by a module in a separate process; `on_answer` is called at each utterance."""
    texts: list[str] = []
    latencies: list[float] = []
    last: dict[str, float] | None = None
    with child.running(module, asdict(job)) as (process, messages, memory):
        for message in messages:
            if "text" in message:
                texts.append(message["text"])
                latencies.append(message["latency_s"])
                on_answer()
            else:
                last = message
        peak_mb = memory.peak().total_mb
    if last is None:
        raise BenchError(f"the baseline {module} ended early, with status {process.returncode}")
    memory_mb = round(peak_mb - last["waveforms_mb"], 1)
    return BaselineRun(
        tuple(texts), tuple(latencies), last["wall_s"], last["audio_s"], last["cpu_s"], memory_mb
    )


def answer(
    paths: Sequence[str], warmup_paths: Sequence[str], transcribe: Callable[[FloatArray], str]
) -> None:
    """Transcribe the files of a job and say the measurements; called in the child."""
    waveforms = [waveform_of(Path(path)) for path in paths]
    for path in warmup_paths:
        transcribe(waveform_of(Path(path)))
    first, cpu_before_s = time.perf_counter(), time.process_time()
    for waveform in waveforms:
        started = time.perf_counter()
        text = transcribe(waveform)
        child.say(text=text, latency_s=time.perf_counter() - started)
    wall_s = time.perf_counter() - first
    child.say(
        wall_s=wall_s,
        cpu_s=time.process_time() - cpu_before_s,
        audio_s=sum(map(len, waveforms)) / SAMPLE_RATE,
        waveforms_mb=sum(waveform.nbytes for waveform in waveforms) / MB,
    )
