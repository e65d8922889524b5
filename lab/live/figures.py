"""The figures of what a viewer of live streams sees, and of the work behind it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from conch.bench.figures import Latency, LiveRun, Script, Shown, StreamRecord, latency_ms
from conch.bench.header import Flat
from conch.scoring.error_rates import Scoring
from conch.wire.result import RollingPasses, Transcript
from lab.alignment import TimedWord
from lab.live.screen import Revisions, firm_lags_s, revisions, screen_errors
from lab.live.shown import Screen, screens
from lab.served import ORCHESTRATION, share_of


class ViewerRecord(StreamRecord):
    """Recorder of one stream that also keeps what each answer shows."""

    def __init__(self, script: Script, has_second_pass: bool) -> None:
        super().__init__(script, has_second_pass)
        self.shown: list[Shown] = []
        """What each answer shows."""
        self.rolling: list[RollingPasses] = []
        """What each answer says about rolling passes, if it does."""
        self.after_endpoint_s: list[float] = []
        """Seconds from the answer with the end of each utterance to that with its second pass."""
        self.calls = 0
        """Calls of components."""
        self._ended_s: dict[int, float] = {}
        self._corrected: set[int] = set()

    def see(self, answer: Transcript, now_s: float) -> Shown:
        """Record an answer that came `now_s` seconds after the stream's first sample was spoken."""
        shown = super().see(answer, now_s)
        self.shown.append(shown)
        if answer.rolling is not None:
            self.rolling.append(answer.rolling)
        stages = answer.stages.items()
        self.calls += sum(stage.calls for name, stage in stages if name != "total")
        for segment in answer.segments:
            ended_s = self._ended_s.setdefault(segment.index, now_s)
            if segment.passes == 2 and segment.index not in self._corrected:
                self._corrected.add(segment.index)
                self.after_endpoint_s.append(now_s - ended_s)
        return shown


@dataclass(frozen=True, slots=True, kw_only=True)
class RollingFigures:
    """The rolling passes of all streams, as their answers report them."""

    made: int
    skipped: int
    refused: int
    interval_ms: float | None
    """Mean of the interval over the answers that have one."""
    late_ms: Latency
    """Time from when a pass was due to its text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewedRun:
    """The figures of one run."""

    run: Flat[LiveRun]
    offline_wer: float | None = None
    """Word error rate of the offline path on the same audio, sent whole.

    Only with two_pass, for requested runs and the best one; None if a request failed.
    """
    after_endpoint_ms: Latency = field(default_factory=Latency)
    """Time from the answer with an utterance's end to the one with its second pass."""
    screen_wer_1s: float | None = None
    """Word errors of the text on the screen 1 s after each word was spoken, a fraction.

    See `lab.live.screen`. None if the times of the reference words are not known.
    """
    screen_wer_2s: float | None = None
    """The same 2 s after each word was spoken."""
    firm_lag_ms: Latency = field(default_factory=Latency)
    """Time from a word's end to the first answer with the word as firm, or with its final text."""
    revised_share: float | None = None
    """Words on the screen that a later text of their utterance replaced or removed, per word of
    the last texts. A word that changes twice counts twice."""
    firm_revised_share: float | None = None
    """Fraction of the firm words that the final text of their utterance replaced or removed."""
    rolling: RollingFigures | None = None
    """None if no answer reports rolling passes."""
    calls_per_chunk: float
    """Calls of components, without those of second passes."""
    cpu_ms_per_chunk_by_process: Mapping[str, float]
    orchestration_share: float | None
    """Fraction of the CPU spent in `speech` and Triton itself, which are no components."""

    @property
    def streams(self) -> int:
        return self.run.streams

    @property
    def keeps_up(self) -> bool:
        return self.run.keeps_up


def viewed(
    run: LiveRun,
    records: Sequence[ViewerRecord],
    words: Sequence[Sequence[TimedWord]],
    scoring: Scoring,
    used_cpu_s: Mapping[str, float] | None,
) -> ViewedRun:
    """Return the figures of a run with those of its viewers.

    Args:
        run: the figures of all streams.
        records: of each stream.
        words: of the reference of each stream, on its clock; empty if their times are not known.
        scoring: what counts as a word.
        used_cpu_s: CPU seconds of the server by process; None if they are not known.
    """
    chunks = max(1, run.chunks)
    seen = [
        (spoken, list(screens(item.shown, scoring)))
        for item, spoken in zip(records, words, strict=True)
        if item.shown and not item.error
    ]
    revised = sum((revisions(found) for _, found in seen), Revisions())
    return ViewedRun(
        run=run,
        after_endpoint_ms=latency_ms([v for item in records for v in item.after_endpoint_s]),
        screen_wer_1s=_screen_wer(seen, 1.0),
        screen_wer_2s=_screen_wer(seen, 2.0),
        firm_lag_ms=latency_ms(
            [lag for spoken, found in seen for lag in firm_lags_s(spoken, found)]
        ),
        revised_share=_ratio(revised.revised, revised.words),
        firm_revised_share=_ratio(revised.firm_revised, revised.firm),
        rolling=_rolling([item.rolling for item in records if item.rolling]),
        calls_per_chunk=round(sum(item.calls for item in records) / chunks, 3),
        cpu_ms_per_chunk_by_process={
            name: round(1000 * seconds / chunks, 3) for name, seconds in (used_cpu_s or {}).items()
        },
        orchestration_share=share_of(used_cpu_s or {}, ORCHESTRATION),
    )


def _screen_wer(
    seen: Sequence[tuple[Sequence[TimedWord], Sequence[Screen]]], delay_s: float
) -> float | None:
    errors = sum(screen_errors(spoken, found, delay_s) for spoken, found in seen)
    return _ratio(errors, sum(len(spoken) for spoken, _ in seen))


def _rolling(sent: Sequence[Sequence[RollingPasses]]) -> RollingFigures | None:
    """Return the figures of rolling passes.

    Args:
        sent: of each stream with rolling passes, what its answers say, in order. The counts are
            those of the stream so far.
    """
    if not sent:
        return None
    intervals = [item.interval_ms for stream in sent for item in stream if item.interval_ms]
    late_s = [
        item.late_ms / 1000
        for stream in sent
        for made, item in zip([0, *(item.made for item in stream)], stream, strict=False)
        if item.made > made
    ]
    return RollingFigures(
        made=sum(stream[-1].made for stream in sent),
        skipped=sum(stream[-1].skipped for stream in sent),
        refused=sum(stream[-1].refused for stream in sent),
        interval_ms=round(sum(intervals) / len(intervals), 1) if intervals else None,
        late_ms=latency_ms(late_s),
    )


def _ratio(part: float, whole: float) -> float | None:
    return round(part / whole, 6) if whole else None
