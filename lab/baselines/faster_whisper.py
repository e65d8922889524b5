"""The baseline: the same weights run by `faster-whisper` in one process, without Triton.

It runs as a user would run it: beam 5, its own VAD filter, the language of the requests or else
English, everything else at its defaults, one utterance after the other on all cores.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from conch.bench.header import cores
from conch.component import FloatArray
from lab.baselines import one_process
from lab.baselines.one_process import BaselineRun, Job, Transcribe

NAME = "faster-whisper"
BATCHES: Mapping[str, int] = {NAME: 0, f"{NAME}-batched": 8}
"""Segments of a recording that are decoded at once, by the name of the baseline; 0 for its usual
way, one window after the other. 8 is the default of its `BatchedInferencePipeline`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    model: str
    """A CTranslate2 Whisper folder; empty is the attention components' default."""
    compute_type: str
    cpu_threads: int
    beam_size: int = 5
    vad_filter: bool = True
    language: str = "en"
    batch_size: int = 0


def options_of(served: Mapping[str, str], language: str, name: str) -> Options:
    compute_type = served.get("compute_type", "auto")
    return Options(
        model=served.get("model", ""),
        # The meaning of `auto` for the attention components on a CPU.
        compute_type="int8" if compute_type == "auto" else compute_type,
        cpu_threads=cores(),
        language=language,
        batch_size=BATCHES[name],
    )


def measure(job: Job[Options], on_answer: Callable[[], None]) -> BaselineRun:
    return one_process.measure(load, job, on_answer)


def load(options: Options) -> Transcribe:
    from faster_whisper import BatchedInferencePipeline, WhisperModel

    from conch.families.whisper.config import model_folder

    model = WhisperModel(
        str(model_folder(options.model)),
        device="cpu",
        compute_type=options.compute_type,
        cpu_threads=options.cpu_threads,
    )
    settings = {
        "beam_size": options.beam_size,
        "vad_filter": options.vad_filter,
        "language": options.language,
    }

    def transcribe(waveform: FloatArray) -> str:
        if options.batch_size:
            batched = BatchedInferencePipeline(model)
            segments, _ = batched.transcribe(waveform, batch_size=options.batch_size, **settings)
        else:
            segments, _ = model.transcribe(waveform, **settings)
        # The segments are a generator: joining them does the work.
        return " ".join(segment.text.strip() for segment in segments)

    return transcribe
