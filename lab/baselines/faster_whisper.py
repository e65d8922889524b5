"""The baseline: the same weights run by `faster-whisper` in one process, without Triton.

`measure` starts `python -m lab.baselines.faster_whisper` (see `lab.child`), which answers with a
message per utterance and a last one with the times.

It runs as a user would run it: beam 5, its own VAD filter, the language of the requests or else
English, everything else at its
defaults, one utterance after the other on all cores.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from conch.bench.header import cores
from conch.bench.memory import MB
from conch.component.waveform import SAMPLE_RATE
from conch.wire.errors import BenchError
from lab import child
from lab.waveforms import waveform_of

NAME = "faster-whisper"
BATCHES: Mapping[str, int] = {NAME: 0, f"{NAME}-batched": 8}
"""Segments of a recording that are decoded at once, by the name of the baseline; 0 for its usual
way, one window after the other. 8 is the default of its `BatchedInferencePipeline`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options that shape the figures."""

    model: str
    """A CTranslate2 Whisper folder; empty is the attention components' default."""
    compute_type: str
    """CTranslate2's name: int8, float32, …"""
    cpu_threads: int
    beam_size: int = 5
    vad_filter: bool = True
    language: str = "en"
    batch_size: int = 0
    """See `BATCHES`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The job of the child."""

    paths: tuple[str, ...]
    """Audio files, decoded before the clock starts."""
    options: Options
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


def faster_whisper_job(
    paths: Sequence[Path],
    served: Mapping[str, str],
    *,
    warmup_paths: Sequence[Path] = (),
    language: str = "en",
    batch_size: int = 0,
) -> Job:
    """Return the job for the weights and the compute type that a server runs.

    Args:
        paths: audio files.
        served: the `parameters` of the server's attention_encoder (`WhisperEncoderConfig`).
        warmup_paths: audio files before the clock starts.
        language: code of the language of the speech.
        batch_size: see `BATCHES`.
    """
    compute_type = served.get("compute_type", "auto")
    return Job(
        paths=tuple(str(path) for path in paths),
        options=Options(
            model=served.get("model", ""),
            # The meaning of `auto` for the attention components on a CPU.
            compute_type="int8" if compute_type == "auto" else compute_type,
            cpu_threads=cores(),
            language=language,
            batch_size=batch_size,
        ),
        warmup_paths=tuple(str(path) for path in warmup_paths),
    )


def measure(job: Job, on_answer: Callable[[], None] = lambda: None) -> BaselineRun:
    """Run the job in a separate process; `on_answer` is called at each utterance.

    Raises:
        BenchError: the process failed; its message is on standard error.
    """
    texts: list[str] = []
    latencies: list[float] = []
    last: dict[str, float] | None = None
    with child.running("lab.baselines.faster_whisper", asdict(job)) as (process, messages, memory):
        for message in messages:
            if "text" in message:
                texts.append(message["text"])
                latencies.append(message["latency_s"])
                on_answer()
            else:
                last = message
        peak_mb = memory.peak().total_mb
    if last is None:
        raise BenchError(f"the {NAME} baseline ended early, with status {process.returncode}")
    memory_mb = round(peak_mb - last["waveforms_mb"], 1)
    return BaselineRun(
        tuple(texts), tuple(latencies), last["wall_s"], last["audio_s"], last["cpu_s"], memory_mb
    )


def main() -> None:
    """Run the job; called in the child."""
    from faster_whisper import BatchedInferencePipeline, WhisperModel

    from conch.families.whisper.config import model_folder

    asked = child.job()
    options = Options(**asked.pop("options"))
    job = Job(**asked, options=options)
    model = WhisperModel(
        str(model_folder(options.model)),
        device="cpu",
        compute_type=options.compute_type,
        cpu_threads=options.cpu_threads,
    )
    waveforms = [waveform_of(Path(path)) for path in job.paths]

    settings = {
        "beam_size": options.beam_size,
        "vad_filter": options.vad_filter,
        "language": options.language,
    }

    def transcribe(waveform: Any) -> str:
        if options.batch_size:
            batched = BatchedInferencePipeline(model)
            segments, _ = batched.transcribe(waveform, batch_size=options.batch_size, **settings)
        else:
            segments, _ = model.transcribe(waveform, **settings)
        # The segments are a generator: joining them does the work.
        return " ".join(segment.text.strip() for segment in segments)

    for path in job.warmup_paths:
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


if __name__ == "__main__":
    main()
