"""The figures of live streams: when their texts came, and the summary of a run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from conch.bench.measures import (
    ENGLISH_WORDS,
    Latency,
    Scoring,
    latency_ms,
    pooled,
    share_of,
    word_errors,
)
from conch.bench.screen import Revisions, firm_lags_s, revisions, screen_errors
from conch.bench.shown import Screen, ScreenLog, Shown, screens
from conch.bench.word_times import TimedWord
from conch.wire.result import RollingPasses, Transcript

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
    utterances: tuple[int, ...] = ()
    """Index of each utterance among the recordings."""
    words: tuple[TimedWord, ...] = ()
    """Words of the reference on the stream's clock; empty if their times are not known."""
    scoring: Scoring = ENGLISH_WORDS
    """What counts as a word."""


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
    after_endpoint_s: list[float] = field(default_factory=list)
    """Of each utterance, from the answer that tells its end to that with its second pass."""
    shown: list[Shown] = field(default_factory=list)
    """What each answer shows."""
    rolling: list[RollingPasses] = field(default_factory=list)
    """What each answer tells about rolling passes, if it does."""
    end_s: list[float] = field(default_factory=list)
    """Latency of END, at most one."""
    calls: int = 0
    """Calls of components."""
    text: str = ""
    """The last text."""
    error: str = ""
    """Why the stream broke off; empty if it did not."""


class Watch:
    """Recorder of when the text of each utterance comes first, when it is final, and what shows."""

    def __init__(self, outcome: StreamOutcome, *, has_second_pass: bool) -> None:
        self._outcome = outcome
        self._log = ScreenLog(has_second_pass=has_second_pass)
        self._num_words: dict[int, int] = {}
        """Words at most shown of each utterance of the server while it is spoken."""
        self._partial_known: set[int] = set()
        self._final_known: set[int] = set()
        self._ended_s: dict[int, float] = {}
        self._corrected: set[int] = set()

    def see(self, answer: Transcript, now_s: float) -> None:
        """Record an answer that came `now_s` seconds after the stream's first sample was spoken."""
        shown = self._log.shown(answer, now_s)
        self._outcome.shown.append(shown)
        if answer.rolling is not None:
            self._outcome.rolling.append(answer.rolling)
        self._see_first_words(shown)
        spans = self._outcome.script.spans
        for item, segment in zip(shown.ended, answer.segments, strict=True):
            self._ended_s.setdefault(item.index, now_s)
            if segment.passes == 2 and item.index not in self._corrected:
                self._corrected.add(item.index)
                self._outcome.after_endpoint_s.append(now_s - self._ended_s[item.index])
            if item.is_final and item.index not in self._final_known:
                self._final_known.add(item.index)
                # A segment may end with silence, and so may a recording.
                ends = [end for start, end in spans if start < item.end_s]
                self._outcome.final_s.append(now_s - min(item.end_s, ends[-1]))

    def _see_first_words(self, shown: Shown) -> None:
        """Record the first text of an utterance: new words, but not those of a second pass."""
        ended = [item for item in shown.ended if item.index not in self._ended_s]
        # Those that ended before they were shown.
        texts = {item.index: item.text for item in ended if item.index not in self._num_words}
        present = len(self._ended_s) + len(ended)
        for index, text in {**texts, present: shown.text}.items():
            num_words = len(text.split())
            if num_words <= self._num_words.get(index, 0):
                continue
            self._num_words[index] = num_words
            # The current utterance, or the one that has just ended.
            spans = self._outcome.script.spans
            place = max(place for place, (start, _) in enumerate(spans) if start <= shown.at_s)
            if place not in self._partial_known:
                self._partial_known.add(place)
                self._outcome.first_partial_s.append(shown.at_s - spans[place][0])


@dataclass(frozen=True, slots=True, kw_only=True)
class RollingFigures:
    """The rolling passes of all streams, as their answers tell them."""

    made: int
    skipped: int
    refused: int
    interval_ms: float | None
    """Mean of the interval over the answers that tell one."""
    late_ms: Latency
    """Time from when a pass was due to its text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveRun:
    """The figures of one run."""

    load: str = LOAD
    streams: int
    """Concurrent streams."""
    keeps_up: bool
    """Whether p99 of the chunk latency is below the chunk's length."""
    wer: float | None
    """Word error rate of the final texts, a fraction; with metric cer that of characters, as all
    error rates and words below."""
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
    after_endpoint_ms: Latency = field(default_factory=Latency)
    """Time from the answer that tells an utterance's end to the one with its second pass."""
    end_ms: Latency
    """Latency of END alone, which counts as a chunk too.

    With two_pass its answer waits for the last second pass.
    """
    screen_wer_1s: float | None = None
    """Word errors of the text on the screen 1 s after each word was spoken, a fraction.

    See `conch.bench.screen`. None if the times of the reference words are not known.
    """
    screen_wer_2s: float | None = None
    """The same 2 s after each word was spoken."""
    firm_lag_ms: Latency = field(default_factory=Latency)
    """Time from a word's end to the answer that first tells it as firm, or its final text."""
    revised_share: float | None = None
    """Words on the screen that a later text of their utterance replaced or removed, per word of
    the last texts. A word that changes twice counts twice."""
    firm_revised_share: float | None = None
    """Fraction of the firm words that the final text of their utterance replaced or removed."""
    rolling: RollingFigures | None = None
    """None if no answer tells of rolling passes."""
    calls_per_chunk: float
    """Calls of components, without those of second passes."""
    cpu_ms_per_chunk: float | None
    """CPU of the server's processes; None for a server that the benchmark did not start."""
    cpu_ms_per_chunk_by_process: Mapping[str, float]
    cpu_s_per_audio_s: float | None = None
    """The same CPU, in seconds per second of audio."""
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
    seen = [
        (item.script, list(screens(item.shown, item.script.scoring)))
        for item in answered
        if item.shown
    ]
    revised = sum((revisions(found) for _, found in seen), Revisions())
    return LiveRun(
        streams=len(outcomes),
        keeps_up=not failed and latency.p99 is not None and latency.p99 < chunk_ms,
        wer=pooled(
            word_errors(item.script.text, item.text, item.script.scoring) for item in answered
        ).wer,
        chunk_latency_ms=latency,
        first_partial_ms=latency_ms([v for item in outcomes for v in item.first_partial_s]),
        final_ms=latency_ms([v for item in outcomes for v in item.final_s]),
        after_endpoint_ms=latency_ms([v for item in outcomes for v in item.after_endpoint_s]),
        end_ms=latency_ms([v for item in outcomes for v in item.end_s]),
        screen_wer_1s=_screen_wer(seen, 1.0),
        screen_wer_2s=_screen_wer(seen, 2.0),
        firm_lag_ms=latency_ms(
            [lag for script, found in seen for lag in firm_lags_s(script.words, found)]
        ),
        revised_share=_ratio(revised.revised, revised.words),
        firm_revised_share=_ratio(revised.firm_revised, revised.firm),
        rolling=_rolling([item.rolling for item in outcomes if item.rolling]),
        calls_per_chunk=round(sum(item.calls for item in outcomes) / max(1, chunks), 3),
        cpu_ms_per_chunk=(
            round(1000 * sum(used_cpu_s.values()) / max(1, chunks), 3) if used_cpu_s else None
        ),
        cpu_ms_per_chunk_by_process=per_chunk,
        cpu_s_per_audio_s=_ratio(sum(used_cpu_s.values()), audio_s) if used_cpu_s else None,
        orchestration_share=share_of(used_cpu_s or {}, ORCHESTRATION),
        chunks=chunks,
        audio_s=round(audio_s, 3),
        errors=len(failed),
        error_messages=[item.error for item in failed],
    )


def _screen_wer(seen: Sequence[tuple[Script, Sequence[Screen]]], delay_s: float) -> float | None:
    errors = sum(screen_errors(script.words, found, delay_s) for script, found in seen)
    return _ratio(errors, sum(len(script.words) for script, _ in seen))


def _rolling(told: Sequence[Sequence[RollingPasses]]) -> RollingFigures | None:
    """Return the figures of rolling passes.

    Args:
        told: of each stream with rolling passes, what its answers tell, in order. The counts are
            those of the stream so far.
    """
    if not told:
        return None
    intervals = [item.interval_ms for stream in told for item in stream if item.interval_ms]
    late_s = [
        item.late_ms / 1000
        for stream in told
        for made, item in zip([0, *(item.made for item in stream)], stream, strict=False)
        if item.made > made
    ]
    return RollingFigures(
        made=sum(stream[-1].made for stream in told),
        skipped=sum(stream[-1].skipped for stream in told),
        refused=sum(stream[-1].refused for stream in told),
        interval_ms=round(sum(intervals) / len(intervals), 1) if intervals else None,
        late_ms=latency_ms(late_s),
    )


def _ratio(part: float, whole: float) -> float | None:
    return round(part / whole, 6) if whole else None
