"""Give words and segments to who speaks in turns."""

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import TypeVar

from conch.wire.result import SCORES, Segment, Turn, Word, text_of_words

NEAR_S = 5.0
"""Speech without a known turn may be of who speaks at most so many seconds before or after."""
LEAST_OTHER_S = 0.25
"""Shortest part of a turn, in seconds, to report with another speaker."""
PAUSE_S = 0.5
"""Seconds; a shorter pause of a speaker belongs to the turn."""

Time = TypeVar("Time", int, float)


def closed(spans: Iterable[tuple[Time, Time]], pause: Time) -> list[tuple[Time, Time]]:
    """Return spans in order; those that overlap, or have a shorter pause between them, are one."""
    merged: list[tuple[Time, Time]] = []
    for start, end in sorted(spans):
        if merged and start - merged[-1][1] < pause:
            merged[-1] = merged[-1][0], max(merged[-1][1], end)
        else:
            merged.append((start, end))
    return merged


def joined_turns(turns: Iterable[Turn], least_s: float = 0.0) -> list[Turn]:
    """Close pauses shorter than PAUSE_S; return the turns of at least `least_s`, by their start."""
    spans: dict[str, list[tuple[float, float]]] = {}
    for turn in turns:
        spans.setdefault(turn.speaker, []).append((turn.start, turn.end))
    joined = [
        Turn(speaker, start, end)
        for speaker, own in spans.items()
        for start, end in closed(own, PAUSE_S)
        if end - start >= least_s
    ]
    return sorted(joined, key=lambda turn: (turn.start, turn.speaker))


def with_speakers(segment: Segment, turns: Sequence[Turn]) -> Segment:
    """Return a segment with the speaker of each word, and with the speaker of most words.

    A word belongs to who speaks most of it, or else to who speaks nearest to it. Where two speak at
    once, the words that were recognised may so be given to either.
    """
    if not segment.text:
        return segment
    words = words_with_speakers(segment.words, turns)
    speaker = _speaker_of_most(words) or speaker_of(segment.start, segment.end, turns)
    return replace(segment, words=words, speaker=speaker)


def with_speakers_near(
    segments: Iterable[Segment], turns: Iterable[Turn]
) -> Iterator[tuple[Segment, Segment]]:
    """Yield pairs: a segment as it is, and with speakers if there are turns within NEAR_S of it.

    Segments and turns are in order of their starts, so that a day of them takes a second.
    """
    later, near = deque(turns), deque[Turn]()
    for segment in segments:
        while later and later[0].start < segment.end + NEAR_S:
            near.append(later.popleft())
        near = deque(turn for turn in near if turn.end > segment.start - NEAR_S)
        yield segment, with_speakers(segment, near) if near else segment


def words_with_speakers(words: Sequence[Word], turns: Sequence[Turn]) -> tuple[Word, ...]:
    return tuple(replace(word, speaker=speaker_of(word.start, word.end, turns)) for word in words)


def cut_by_speaker(segment: Segment) -> list[Segment]:
    """Return a segment in parts that have one speaker each, in order of time.

    The words of a live segment may have several speakers. Its parts all have its index.
    """
    runs = [(who, tuple(said)) for who, said in groupby(segment.words, lambda word: word.speaker)]
    if len(runs) < 2:
        return [segment]
    starts = [segment.start, *(said[0].start for _, said in runs[1:]), segment.end]
    return [
        _part(segment, str(who), said, (starts[index], starts[index + 1]))
        for index, (who, said) in enumerate(runs)
    ]


def other_turns(sent: Sequence[Turn], final: Iterable[Turn]) -> Iterator[Turn]:
    """Yield the parts of `final` turns whose speaker `sent` lacks there, if they are long enough.

    Turns of one speaker do not overlap.
    """
    by_speaker: dict[str, list[Turn]] = {}
    for turn in joined_turns(sent):
        by_speaker.setdefault(turn.speaker, []).append(turn)
    for turn in final:
        own, start = by_speaker.get(turn.speaker, []), turn.start
        first = bisect_left(own, start, key=lambda other: other.end)
        behind = bisect_left(own, turn.end, key=lambda other: other.start)
        for other in (*own[first:behind], Turn(turn.speaker, turn.end, turn.end)):
            if other.start - start >= LEAST_OTHER_S:
                yield Turn(turn.speaker, start, other.start)
            start = max(start, other.end)


def speaker_of(start: float, end: float, turns: Sequence[Turn]) -> str:
    """Return who speaks most of a stretch, or nearest to it; A without turns."""
    seconds: dict[str, float] = {}
    for turn in turns:
        shared = min(end, turn.end) - max(start, turn.start)
        if shared > 0:
            seconds[turn.speaker] = seconds.get(turn.speaker, 0.0) + shared
    if seconds:
        return max(seconds, key=seconds.__getitem__)
    nearest = min(turns, key=lambda turn: max(turn.start - end, start - turn.end), default=None)
    return nearest.speaker if nearest else "A"


def _speaker_of_most(words: Sequence[Word]) -> str:
    """Return who says the most characters of words; empty without words."""
    said: dict[str, int] = {}
    for word in words:
        said[str(word.speaker)] = said.get(str(word.speaker), 0) + len(word.text)
    return max(said, key=said.__getitem__, default="")


def _part(
    segment: Segment, who: str, words: tuple[Word, ...], edges: tuple[float, float]
) -> Segment:
    """Return the part of a segment that one speaker says; its scores are the share of its words."""
    start, end = edges
    best, share = segment.nbest[0], len(words) / len(segment.words)
    scores = {name: value * share for name in SCORES if (value := getattr(best, name)) is not None}
    number = None if best.num_words is None else len(words)
    return replace(
        segment,
        start=start,
        # A pause before the next speaker is nobody's.
        end=end if end == segment.end else min(end, words[-1].end),
        nbest=(replace(best, text=text_of_words(words), num_words=number, **scores),),
        words=words,
        speaker=who,
        unrecognised=tuple(item for item in segment.unrecognised if start <= item.start < end),
    )
