"""The figures of live streams: when their texts were seen, and what a run says."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conch.bench.measures import latency_ms, share_of, word_error_rate
from conch.bench.report import number, percent, table
from conch.wire.result import Transcript

LOAD = "paced in real time"

ORCHESTRATION = ("speech", "tritonserver")
"""The processes of a server that compute nothing of speech."""


@dataclass(frozen=True, slots=True)
class Script:
    """What one stream says."""

    waveform: NDArray[np.float32]
    sample_rate: int
    spans: tuple[tuple[float, float], ...]
    """Start and end of each utterance, in seconds."""
    text: str


@dataclass(slots=True)
class Heard:
    """What came of one stream."""

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

    def __init__(self, heard: Heard, *, has_second_pass: bool) -> None:
        self._heard, self._has_second_pass = heard, has_second_pass
        self._num_words = 0
        self._partial_known: set[int] = set()
        self._final_known: set[int] = set()

    def see(self, answer: Transcript, now_s: float) -> None:
        """Take an answer that came `now_s` after the stream's first sample was spoken."""
        spans = self._heard.script.spans
        num_words = len(answer.text.split())
        if num_words > self._num_words:
            # The utterance that is being spoken, or has just been.
            index = max(place for place, (start, _) in enumerate(spans) if start <= now_s)
            if index not in self._partial_known:
                self._partial_known.add(index)
                self._heard.first_partial_s.append(now_s - spans[index][0])
        self._num_words = num_words
        for segment in answer.segments:
            is_final = segment.passes == 2 or not self._has_second_pass or bool(segment.error)
            if is_final and segment.index not in self._final_known:
                self._final_known.add(segment.index)
                # A segment ends with some silence, and so may a recording.
                ends = [end for start, end in spans if start < segment.end]
                self._heard.final_s.append(now_s - min(segment.end, ends[-1]))


def figures(
    heard: Sequence[Heard], chunk_ms: int, used_cpu_s: Mapping[str, float] | None
) -> dict[str, Any]:
    """Return what a run says.

    Args:
        heard: what came of each stream.
        chunk_ms: of a chunk.
        used_cpu_s: of the server, by process; None where nobody knows.
    """
    chunks = sum(len(item.chunk_s) for item in heard)
    latency = latency_ms([value for item in heard for value in item.chunk_s])
    failed = [item for item in heard if item.error]
    answered = [item for item in heard if not item.error]
    p99 = latency["p99"]
    return {
        "load": LOAD,
        "streams": len(heard),
        "keeps_up": not failed and p99 is not None and p99 < chunk_ms,
        "wer": word_error_rate(
            [item.script.text for item in answered], [item.text for item in answered]
        ),
        "offline_wer": None,
        "chunk_latency_ms": latency,
        "first_partial_ms": latency_ms([v for item in heard for v in item.first_partial_s]),
        "final_ms": latency_ms([v for item in heard for v in item.final_s]),
        "end_ms": latency_ms([v for item in heard for v in item.end_s]),
        "calls_per_chunk": round(sum(item.calls for item in heard) / max(1, chunks), 3),
        "cpu_ms_per_chunk": (
            round(1000 * sum(used_cpu_s.values()) / max(1, chunks), 3) if used_cpu_s else None
        ),
        "cpu_ms_per_chunk_by_process": {
            name: round(1000 * seconds / max(1, chunks), 3)
            for name, seconds in (used_cpu_s or {}).items()
        },
        "orchestration_share": share_of(used_cpu_s or {}, ORCHESTRATION),
        "chunks": chunks,
        "audio_s": round(
            sum(len(item.script.waveform) / item.script.sample_rate for item in heard), 3
        ),
        "errors": len(failed),
        "error_messages": [item.error for item in failed],
    }


def markdown(report: Mapping[str, Any]) -> str:
    """Return the table of a report and a line on where it comes from."""
    header = ["streams", "keeps up", *(f"chunk p{p} ms" for p in (50, 90, 95, 99))]
    header += [
        "END p99 ms",
        "first partial p50 ms",
        "final p50 ms",
        "calls/chunk",
        "CPU ms/chunk",
        "orchestration %",
        "WER %",
        "offline WER %",
    ]
    rows = [
        [
            str(item["streams"]),
            "yes" if item["keeps_up"] else "no",
            *(number(item["chunk_latency_ms"][f"p{p}"], 0) for p in (50, 90, 95, 99)),
            number(item["end_ms"]["p99"], 0),
            number(item["first_partial_ms"]["p50"], 0),
            number(item["final_ms"]["p50"], 0),
            number(item["calls_per_chunk"], 2),
            number(item["cpu_ms_per_chunk"]),
            percent(item["orchestration_share"]),
            percent(item["wer"]),
            percent(item["offline_wer"]),
        ]
        for item in report["runs"]
    ]
    machine, versions = report["machine"], report["versions"]
    where = (
        f"chunks of {report['chunk_ms']} ms, {LOAD}, {report['seconds']:g} s a stream, pauses of "
        f"{report['pause_s']:g} s; {machine['cpu']}, {machine['cores']} cores, "
        f"{machine['memory_gb']:g} GB; Triton {versions['triton']}, Python {versions['python']}; "
        f"{report['started_at']}"
    )
    errors = [f"**{item}**" for run in report["runs"] for item in run["error_messages"][:1]]
    return "\n\n".join([f"`{report['command']}`", table(header, rows), *errors, where]) + "\n"
