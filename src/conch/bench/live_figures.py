"""The figures of live streams: when their texts came, and the summary of a run."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from conch.bench.figures import Latency, latency_ms
from conch.scoring.error_rates import Scoring, word_error_rate
from conch.wire.result import Transcript

if TYPE_CHECKING:
    from conch.bench.memory import Memory

LOAD = "paced in real time"


@dataclass(frozen=True, slots=True)
class Ended:
    """An utterance that has ended, or whose text an answer replaces."""

    index: int
    text: str
    end_s: float
    """Seconds on the audio's clock."""
    is_final: bool
    """Whether no later answer replaces the text."""


@dataclass(frozen=True, slots=True)
class Shown:
    """The part of an answer that a viewer sees."""

    at_s: float
    """When it came, in seconds after the stream's first sample was spoken."""
    ended: tuple[Ended, ...]
    """Utterances that are new or replaced."""
    text: str
    """Text of the utterance that is being spoken."""
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
    text = answer.utterance.text if answer.utterance else ""
    return Shown(now_s, ended, text, answer.is_final)


@dataclass(frozen=True, slots=True)
class Script:
    """The audio and the words of one stream."""

    waveform: NDArray[np.float32]
    """Mono samples `[T]`."""
    sample_rate: int
    """Hz."""
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
        """Latency of END, at most one."""
        self.text = ""
        """The last text."""
        self.error = ""
        """Why the stream broke off; empty if it did not."""
        self._has_second_pass = has_second_pass
        self._num_words: dict[int, int] = {}
        """Words at most shown of each utterance of the server while it is spoken."""
        self._partial_known: set[int] = set()
        self._final_known: set[int] = set()
        self._ended: set[int] = set()

    def see(self, answer: Transcript, now_s: float) -> Shown:
        """Record an answer that came `now_s` seconds after the stream's first sample was spoken."""
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
            place = max(place for place, (start, _) in enumerate(spans) if start <= shown.at_s)
            if place not in self._partial_known:
                self._partial_known.add(place)
                self.first_partial_s.append(shown.at_s - spans[place][0])


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveRun:
    load: str = LOAD
    streams: int
    keeps_up: bool
    """Whether p99 of the chunk latency is below the chunk's length."""
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
    """The same CPU, in seconds per second of audio."""
    peak_memory_mb: float | None
    """Memory of all processes of the server together, from its start to the end of the run. See
    `conch.bench.memory`. None for a server that the benchmark did not start."""
    chunks: int
    audio_s: float
    errors: int
    """Streams that broke off; they do not count for the word error rate."""
    error_messages: Sequence[str]


def figures(
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
