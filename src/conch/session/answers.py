"""Answers of one session: shift those of a stream to the session's clock, and join several."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias, TypeVar

from conch.wire.known_speakers import known_speakers_of
from conch.wire.result import (
    OpenUtterance,
    RollingPasses,
    Segment,
    Stage,
    Transcript,
    Turn,
    TurnEvent,
    Unrecognised,
    Word,
    summed_stages,
)

Label: TypeAlias = Callable[[Any], Any]
"""Returns the label that a speaker of one stream has in the whole session."""
Timed = TypeVar("Timed", Segment, Turn, Unrecognised, Word)
Said = TypeVar("Said", Turn, Word)


def labels_of(stream: int, known: str = "") -> Label:
    """Return the labels of a stream's speakers: A of the second is A2, known ones keep names."""
    names = {item.name for item in known_speakers_of(known)} if stream > 1 else set()

    def label(speaker: Any) -> Any:
        is_own = speaker and stream > 1 and speaker not in names
        return f"{speaker}{stream}" if is_own else speaker

    return label


FIRST = labels_of(1)


def has_last_text(segment: Segment, answer: Transcript) -> bool:
    """Return whether the text of a segment no longer changes.

    With two passes it changes once more. An answer without `rolling` is of a stream with one pass.
    """
    is_passed = segment.passes > 1 or bool(segment.error)
    return is_passed or answer.is_final or answer.rolling is None


def shifted_segment(
    segment: Segment, seconds: float, indices: int, label: Label = FIRST
) -> Segment:
    """Return a segment with its times and its index shifted, and labels of the whole session."""
    return _moved(
        segment,
        seconds,
        words=shifted(segment.words, seconds, label),
        unrecognised=tuple(_moved(item, seconds) for item in segment.unrecognised),
        index=segment.index + indices,
        speaker=label(segment.speaker),
    )


def shifted(items: Iterable[Said], seconds: float, label: Label) -> tuple[Said, ...]:
    return tuple(_moved(item, seconds, speaker=label(item.speaker)) for item in items)


def shifted_events(
    events: Iterable[TurnEvent], seconds: float, indices: int
) -> tuple[TurnEvent, ...]:
    return tuple(
        replace(event, at=_later(event.at, seconds), index=event.index + indices)
        for event in events
    )


def shifted_utterance(
    utterance: OpenUtterance, seconds: float, label: Label = FIRST
) -> OpenUtterance:
    parts = (utterance.firm, utterance.tentative, utterance.newest)
    heard_until = utterance.heard_until and _later(utterance.heard_until, seconds)
    firm, tentative, newest = (shifted(part, seconds, label) for part in parts)
    start = _later(utterance.start, seconds)
    return OpenUtterance(start, firm, tentative, newest, heard_until)


def _moved(item: Timed, seconds: float, **changes: Any) -> Timed:
    start, end = _later(item.start, seconds), _later(item.end, seconds)
    return replace(item, start=start, end=end, **changes)


def _later(time_s: float, seconds: float) -> float:
    return round(time_s + seconds, 3)


class SummedCalls:
    """The sum of the calls of all answers of one or more streams."""

    def __init__(self) -> None:
        self._path: dict[str, None] = {}
        self.stages: dict[str, Stage] = {}

    @property
    def path(self) -> tuple[str, ...]:
        """Components in order of first use."""
        return tuple(self._path)

    def add(self, answer: Transcript) -> None:
        self._path |= dict.fromkeys(answer.path)
        self.stages = summed_stages((self.stages, answer.stages))


def added_passes(before: RollingPasses | None, now: RollingPasses) -> RollingPasses:
    """Return the rolling passes of a stream plus those of earlier streams."""
    if before is None:
        return now
    return replace(
        now,
        made=before.made + now.made,
        skipped=before.skipped + now.skipped,
        refused=before.refused + now.refused,
    )


def latest_segments(segments: Iterable[Segment]) -> tuple[Segment, ...]:
    """Return segments in order of their index; of equal ones, the last counts."""
    by_index = {segment.index: segment for segment in segments}
    return tuple(by_index[index] for index in sorted(by_index))


def joined_answers(answers: Sequence[Transcript]) -> Transcript:
    """Join the answers to the frames of one chunk; there is at least one."""
    if len(answers) == 1:
        return answers[0]
    calls = SummedCalls()
    for answer in answers:
        calls.add(answer)
    return replace(
        answers[-1],
        segments=latest_segments(segment for answer in answers for segment in answer.segments),
        path=calls.path,
        stages=calls.stages,
        turn_events=tuple(event for answer in answers for event in answer.turn_events),
    )
