"""The figures of live streams: when their texts were seen, and what a run says."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from conch.bench.measures import Latency, latency_ms, share_of, word_error_rate
from conch.wire.result import Transcript

LOAD = "paced in real time"

ORCHESTRATION = ("speech", "tritonserver")
"""The processes of a server that compute nothing of speech."""


@dataclass(frozen=True, slots=True)
class Script:
    """What one stream says."""

    waveform: NDArray[np.float32]
    """Mono samples `[T]`."""
    sample_rate: int
    """Hz."""
    spans: tuple[tuple[float, float], ...]
    """Start and end of each utterance, in seconds."""
    text: str


@dataclass(slots=True)
class StreamResult:
    """What came of one stream; times are in seconds."""

    script: Script
    chunk_s: list[float] = field(default_factory=list)
    first_partial_s: list[float] = field(default_factory=list)
    final_s: list[float] = field(default_factory=list)
    end_s: list[float] = field(default_factory=list)
    calls: int = 0
    text: str = ""
    error: str = ""


class Watch:
    """Notes when the text of each utterance is first seen, and when it is final."""

    def __init__(self, result: StreamResult, *, has_second_pass: bool) -> None:
        self._result, self._has_second_pass = result, has_second_pass
        self._num_words = 0
        self._partial_known: set[int] = set()
        self._final_known: set[int] = set()

    def see(self, answer: Transcript, now_s: float) -> None:
        """Take an answer that came `now_s` after the stream's first sample was spoken."""
        spans = self._result.script.spans
        num_words = len(answer.text.split())
        if num_words > self._num_words:
            # The utterance that is being spoken, or has just been.
            index = max(place for place, (start, _) in enumerate(spans) if start <= now_s)
            if index not in self._partial_known:
                self._partial_known.add(index)
                self._result.first_partial_s.append(now_s - spans[index][0])
        self._num_words = num_words
        for segment in answer.segments:
            is_final = segment.passes == 2 or not self._has_second_pass or bool(segment.error)
            if is_final and segment.index not in self._final_known:
                self._final_known.add(segment.index)
                # A segment ends with some silence, and so may a recording.
                ends = [end for start, end in spans if start < segment.end]
                self._result.final_s.append(now_s - min(segment.end, ends[-1]))


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveRun:
    """What one run says."""

    load: str = LOAD
    streams: int
    """At once."""
    keeps_up: bool
    """Whether p99 of the chunk latency is below the chunk's length."""
    wer: float | None
    """Of the final texts, a fraction."""
    offline_wer: float | None = None
    """Of the offline path on the same audio, sent whole; None but for two_pass, where a request
    failed, and for runs that only `find_largest` made, unless one of them is the best."""
    chunk_latency_ms: Latency
    """From when a chunk was due to its answer."""
    first_partial_ms: Latency
    """From an utterance's start, as spoken, to the first answer with text."""
    final_ms: Latency
    """From an utterance's end, as spoken, to the answer with its final text: the silence that makes
    the endpoint is in it."""
    end_ms: Latency
    """Of END alone, which is among the chunks as well: with two_pass its answer waits for the last
    second pass."""
    calls_per_chunk: float
    """Calls of components, those of second passes left out."""
    cpu_ms_per_chunk: float | None
    """Of the server's processes; None where the server is somebody else's."""
    cpu_ms_per_chunk_by_process: Mapping[str, float]
    orchestration_share: float | None
    """Of that CPU, the fraction spent in the processes of `speech` and Triton itself: everything
    but components."""
    chunks: int
    audio_s: float
    errors: int
    """Streams that broke off; they count in no word error rate."""
    error_messages: Sequence[str]


def figures(
    results: Sequence[StreamResult], chunk_ms: int, used_cpu_s: Mapping[str, float] | None
) -> LiveRun:
    """Return what a run says.

    Args:
        results: what came of each stream.
        chunk_ms: of a chunk.
        used_cpu_s: of the server, by process; None where nobody knows.
    """
    chunks = sum(len(item.chunk_s) for item in results)
    latency = latency_ms([value for item in results for value in item.chunk_s])
    failed = [item for item in results if item.error]
    answered = [item for item in results if not item.error]
    audio_s = sum(len(item.script.waveform) / item.script.sample_rate for item in results)
    per_chunk = {
        name: round(1000 * seconds / max(1, chunks), 3)
        for name, seconds in (used_cpu_s or {}).items()
    }
    return LiveRun(
        streams=len(results),
        keeps_up=not failed and latency.p99 is not None and latency.p99 < chunk_ms,
        wer=word_error_rate(
            [item.script.text for item in answered], [item.text for item in answered]
        ),
        chunk_latency_ms=latency,
        first_partial_ms=latency_ms([v for item in results for v in item.first_partial_s]),
        final_ms=latency_ms([v for item in results for v in item.final_s]),
        end_ms=latency_ms([v for item in results for v in item.end_s]),
        calls_per_chunk=round(sum(item.calls for item in results) / max(1, chunks), 3),
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
