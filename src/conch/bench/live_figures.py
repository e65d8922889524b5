"""The figures of live streams: when their texts came, and the summary of a run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from conch.bench.measures import Latency, latency_ms, share_of, word_error_rate
from conch.wire.result import Transcript

LOAD = "paced in real time"

ORCHESTRATION = ("speech", "tritonserver")
"""The processes of a server that are no components."""


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


@dataclass(slots=True)
class StreamOutcome:
    """The answers to one stream; times are in seconds."""

    script: Script
    chunk_s: list[float] = field(default_factory=list)
    """Latency of each chunk."""
    first_partial_s: list[float] = field(default_factory=list)
    """Of each utterance, from its start to its first text."""
    final_s: list[float] = field(default_factory=list)
    """Of each utterance, from its end to its final text."""
    end_s: list[float] = field(default_factory=list)
    """Latency of END, at most one."""
    calls: int = 0
    """Calls of components."""
    text: str = ""
    """The last text."""
    error: str = ""
    """Why the stream broke off; empty if it did not."""


class Watch:
    """Recorder of when the text of each utterance comes first, and when it is final."""

    def __init__(self, outcome: StreamOutcome, *, has_second_pass: bool) -> None:
        self._outcome, self._has_second_pass = outcome, has_second_pass
        self._num_words = 0
        self._partial_known: set[int] = set()
        self._final_known: set[int] = set()

    def see(self, answer: Transcript, now_s: float) -> None:
        """Record an answer that came `now_s` seconds after the stream's first sample was spoken."""
        spans = self._outcome.script.spans
        num_words = len(answer.text.split())
        if num_words > self._num_words:
            # The current utterance, or the one that has just ended.
            index = max(place for place, (start, _) in enumerate(spans) if start <= now_s)
            if index not in self._partial_known:
                self._partial_known.add(index)
                self._outcome.first_partial_s.append(now_s - spans[index][0])
        self._num_words = num_words
        for segment in answer.segments:
            is_final = segment.passes == 2 or not self._has_second_pass or bool(segment.error)
            if is_final and segment.index not in self._final_known:
                self._final_known.add(segment.index)
                # A segment may end with silence, and so may a recording.
                ends = [end for start, end in spans if start < segment.end]
                self._outcome.final_s.append(now_s - min(segment.end, ends[-1]))


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveRun:
    """The figures of one run."""

    load: str = LOAD
    streams: int
    """Concurrent streams."""
    keeps_up: bool
    """Whether p99 of the chunk latency is below the chunk's length."""
    wer: float | None
    """Word error rate of the final texts, a fraction."""
    offline_wer: float | None = None
    """Word error rate of the offline path on the same audio, sent whole.

    Only with two_pass, for requested runs and the best one; None if a request failed.
    """
    chunk_latency_ms: Latency
    """Time from when a chunk was due to its answer."""
    first_partial_ms: Latency
    """Time from an utterance's start, as spoken, to the first answer with text."""
    final_ms: Latency
    """Time from an utterance's end, as spoken, to the answer with its final text.

    It includes the silence that makes the endpoint.
    """
    end_ms: Latency
    """Latency of END alone, which counts as a chunk too.

    With two_pass its answer waits for the last second pass.
    """
    calls_per_chunk: float
    """Calls of components, without those of second passes."""
    cpu_ms_per_chunk: float | None
    """CPU of the server's processes; None for a server that the benchmark did not start."""
    cpu_ms_per_chunk_by_process: Mapping[str, float]
    orchestration_share: float | None
    """Fraction of that CPU spent in `speech` and Triton itself, which are no components."""
    chunks: int
    audio_s: float
    errors: int
    """Streams that broke off; they do not count for the word error rate."""
    error_messages: Sequence[str]


def figures(
    outcomes: Sequence[StreamOutcome], chunk_ms: int, used_cpu_s: Mapping[str, float] | None
) -> LiveRun:
    """Return the figures of a run.

    Args:
        outcomes: the answers to each stream.
        chunk_ms: length of a chunk.
        used_cpu_s: CPU seconds of the server by process; None if they are not known.
    """
    chunks = sum(len(item.chunk_s) for item in outcomes)
    latency = latency_ms([value for item in outcomes for value in item.chunk_s])
    failed = [item for item in outcomes if item.error]
    answered = [item for item in outcomes if not item.error]
    audio_s = sum(len(item.script.waveform) / item.script.sample_rate for item in outcomes)
    per_chunk = {
        name: round(1000 * seconds / max(1, chunks), 3)
        for name, seconds in (used_cpu_s or {}).items()
    }
    return LiveRun(
        streams=len(outcomes),
        keeps_up=not failed and latency.p99 is not None and latency.p99 < chunk_ms,
        wer=word_error_rate(
            [item.script.text for item in answered], [item.text for item in answered]
        ),
        chunk_latency_ms=latency,
        first_partial_ms=latency_ms([v for item in outcomes for v in item.first_partial_s]),
        final_ms=latency_ms([v for item in outcomes for v in item.final_s]),
        end_ms=latency_ms([v for item in outcomes for v in item.end_s]),
        calls_per_chunk=round(sum(item.calls for item in outcomes) / max(1, chunks), 3),
        cpu_ms_per_chunk=(
            round(1000 * sum(used_cpu_s.values()) / max(1, chunks), 3) if used_cpu_s else None
        ),
        cpu_ms_per_chunk_by_process=per_chunk,
        orchestration_share=share_of(used_cpu_s or {}, ORCHESTRATION),
        chunks=chunks,
        audio_s=round(audio_s, 3),
        errors=len(failed),
        error_messages=[item.error for item in failed],
    )
