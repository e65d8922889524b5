"""The figures of runs: of whole recordings, and of live streams."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from conch.bench.header import Flat
from conch.bench.load import LoadResult
from conch.bench.samples import Sample
from conch.scoring.error_rates import (
    Accuracy,
    Metric,
    Scoring,
    accuracy,
    language_of_texts,
    word_error_rate,
    word_errors,
)
from conch.wire.result import Transcript, summed_stages, text_of_words

if TYPE_CHECKING:
    from conch.bench.memory import Memory

PERCENTILES = (50, 90, 95, 99)
REAL_TIME = "paced in real time"


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
    """Return percentiles, interpolated linearly, mean and maximum."""
    if not latencies_s:
        return Latency()
    milliseconds = np.asarray(latencies_s, dtype=np.float64) * 1000
    values = [*np.percentile(milliseconds, PERCENTILES), milliseconds.mean(), milliseconds.max()]
    names = [item.name for item in fields(Latency)]
    return Latency(**{k: round(float(v), 3) for k, v in zip(names, values, strict=True)})


def rtfx(audio_s: float, wall_s: float) -> float | None:
    """Return seconds of audio answered per second of wall clock; None without audio."""
    return round(audio_s / wall_s, 3) if audio_s and wall_s else None


@dataclass(frozen=True, slots=True)
class MeanStage:
    calls: float
    ms: float
    """Milliseconds; concurrent calls each count."""


@dataclass(frozen=True, slots=True)
class ErrorMessage:
    path: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFigures:
    rtfx: float | None
    accuracy: Flat[Accuracy]
    latency_ms: Latency
    """From the client's call to its return; under a paced load, from when the request was due."""
    audio_s: float
    wall_s: float
    utterances: int
    errors: int
    """Requests that failed; they count in no other figure."""
    error_messages: Sequence[ErrorMessage]
    stages: Mapping[str, MeanStage]


def run_figures(
    samples: Sequence[Sample],
    load: LoadResult[Transcript],
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


@dataclass(frozen=True, slots=True)
class Ended:
    """An utterance that has ended, or whose text an answer replaces."""

    index: int
    text: str
    end_s: float
    """Seconds on the audio's clock."""
    is_final: bool


@dataclass(frozen=True, slots=True)
class Shown:
    at_s: float
    """When it came, in seconds after the stream's first sample was spoken."""
    ended: tuple[Ended, ...]
    text: str
    """Text of the utterance that is being spoken."""
    firm: str
    """The beginning of that text that stays until the utterance ends."""
    is_last: bool


def shown_by(answer: Transcript, now_s: float, *, has_second_pass: bool) -> Shown:
    ended = tuple(
        Ended(
            index=segment.index,
            text=segment.text,
            end_s=segment.end,
            is_final=segment.passes == 2 or not has_second_pass or bool(segment.error),
        )
        for segment in answer.segments
    )
    spoken = answer.utterance
    text, firm = (spoken.text, text_of_words(spoken.firm)) if spoken else ("", "")
    return Shown(now_s, ended, text, firm, answer.is_final)


@dataclass(frozen=True, slots=True)
class Script:
    waveform: NDArray[np.float32]
    sample_rate: int
    spans: tuple[tuple[float, float], ...]
    """Start and end of each utterance, in seconds."""
    text: str
    """Reference of all utterances."""
    utterances: tuple[int, ...] = ()
    """Index of each utterance among the recordings."""


class StreamRecord:
    """Recorder of one stream: when its chunks are answered, and when its texts come."""

    def __init__(self, script: Script, has_second_pass: bool) -> None:
        self.script = script
        self.chunk_s: list[float] = []
        """Latency of each chunk, in seconds."""
        self.first_partial_s: list[float] = []
        """Seconds from the start of each utterance to its first text."""
        self.final_s: list[float] = []
        """Seconds from the end of each utterance to its final text."""
        self.end_s: list[float] = []
        self.text = ""
        self.error = ""
        self._has_second_pass = has_second_pass
        self._num_words: dict[int, int] = {}
        """Words at most shown of each utterance of the server while it is spoken."""
        self._partial_known: set[int] = set()
        self._final_known: set[int] = set()
        self._ended: set[int] = set()

    def see(self, answer: Transcript, now_s: float) -> Shown:
        """Record an answer that came `now_s` seconds after the first sample was spoken."""
        self.text = answer.text
        shown = shown_by(answer, now_s, has_second_pass=self._has_second_pass)
        self._see_first_words(shown)
        for item in shown.ended:
            self._ended.add(item.index)
            if item.is_final and item.index not in self._final_known:
                self._final_known.add(item.index)
                # A segment may end with silence, and so may a recording.
                ends = [end for start, end in self.script.spans if start < item.end_s]
                self.final_s.append(now_s - min(item.end_s, ends[-1]))
        return shown

    def _see_first_words(self, shown: Shown) -> None:
        """Record the first text of an utterance: new words, but not those of a second pass."""
        ended = [item for item in shown.ended if item.index not in self._ended]
        # Those that ended before they were shown.
        texts = {item.index: item.text for item in ended if item.index not in self._num_words}
        present = len(self._ended) + len(ended)
        for index, text in {**texts, present: shown.text}.items():
            num_words = len(text.split())
            if num_words <= self._num_words.get(index, 0):
                continue
            self._num_words[index] = num_words
            # The current utterance, or the one that has just ended.
            spans = self.script.spans
            latest = max(i for i, (start, _) in enumerate(spans) if start <= shown.at_s)
            if latest not in self._partial_known:
                self._partial_known.add(latest)
                self.first_partial_s.append(shown.at_s - spans[latest][0])


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveRun:
    load: str = REAL_TIME
    streams: int
    keeps_up: bool
    wer: float | None
    """Word error rate of the final texts, a fraction; with metric cer that of characters."""
    chunk_latency_ms: Latency
    """Time from when a chunk was due to its answer."""
    first_partial_ms: Latency
    """Time from an utterance's start, as spoken, to the first answer with text."""
    final_ms: Latency
    """Time from an utterance's end, as spoken, to the answer with its final text. It includes the
    silence that makes the endpoint."""
    end_ms: Latency
    """Latency of END alone, which counts as a chunk too. With two_pass its answer waits for the
    last second pass."""
    cpu_ms_per_chunk: float | None
    """CPU of the server's processes; None for a server that the benchmark did not start."""
    cpu_s_per_audio_s: float | None
    peak_memory_mb: float | None
    """None for a server that the benchmark did not start; see `conch.bench.memory`."""
    chunks: int
    audio_s: float
    errors: int
    """Streams that broke off; they do not count for the word error rate."""
    error_messages: Sequence[str]


def live_run(
    records: Sequence[StreamRecord],
    chunk_ms: int,
    scoring: Scoring,
    used_cpu_s: float | None = None,
    peak: "Memory | None" = None,
) -> LiveRun:
    chunks = sum(len(item.chunk_s) for item in records)
    latency = latency_ms([value for item in records for value in item.chunk_s])
    failed = [item for item in records if item.error]
    answered = [item for item in records if not item.error]
    audio_s = sum(len(item.script.waveform) / item.script.sample_rate for item in records)
    return LiveRun(
        streams=len(records),
        keeps_up=not failed and latency.p99 is not None and latency.p99 < chunk_ms,
        wer=word_error_rate(
            [item.script.text for item in answered], [item.text for item in answered], scoring
        ),
        chunk_latency_ms=latency,
        first_partial_ms=latency_ms([v for item in records for v in item.first_partial_s]),
        final_ms=latency_ms([v for item in records for v in item.final_s]),
        end_ms=latency_ms([v for item in records for v in item.end_s]),
        cpu_ms_per_chunk=round(1000 * used_cpu_s / max(1, chunks), 3) if used_cpu_s else None,
        cpu_s_per_audio_s=round(used_cpu_s / audio_s, 6) if used_cpu_s else None,
        peak_memory_mb=peak.total_mb if peak else None,
        chunks=chunks,
        audio_s=round(audio_s, 3),
        errors=len(failed),
        error_messages=[item.error for item in failed],
    )
