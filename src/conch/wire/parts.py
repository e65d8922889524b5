"""Build a transcript from segments, and join the parts of a streamed answer."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from types import MappingProxyType

from msgspec import UNSET

from conch.wire.nbest import joined
from conch.wire.result import Channel, Overlap, Segment, Speaker, Stage, Transcript, Turn

MAX_WARNINGS = 10
"""Largest number of warnings about unrecognised speech. The segments have all of it."""


def transcript_of(
    segments: Sequence[Segment],
    nbest: int,
    *,
    duration: float,
    path: tuple[str, ...],
    stages: Mapping[str, Stage],
    channels: Sequence[int] = (),
    warnings: tuple[str, ...] = (),
) -> Transcript:
    """Return the transcript of segments, without those that have no text or unrecognised speech."""
    written = spoken(segments)
    language, probability, translated_from = language_of(written)
    return Transcript(
        nbest=joined([segment.nbest for segment in written], nbest),
        segments=written,
        duration=duration,
        path=path,
        stages=stages,
        channels=tuple(_channel(number, written) for number in channels),
        warnings=warnings,
        language=language,
        language_probability=probability,
        translated_from=translated_from,
    )


def spoken(segments: Sequence[Segment]) -> tuple[Segment, ...]:
    """Return the segments with a text, or with speech that has none."""
    return tuple(segment for segment in segments if segment.text or segment.unrecognised)


def language_of(segments: Sequence[Segment]) -> tuple[str, float | None, str]:
    """Return the language of most of the speech, its probability, and what it is translated from.

    The probability is the mean of those of its segments that have one, by their length.
    """
    seconds: dict[tuple[str, str], float] = {}
    for segment in segments:
        if segment.language:
            key = segment.language, segment.translated_from
            seconds[key] = seconds.get(key, 0.0) + segment.end - segment.start
    if not seconds:
        return "", None, ""
    language, translated_from = max(seconds, key=lambda key: seconds[key])
    known = [
        (segment.end - segment.start, segment.language_probability)
        for segment in segments
        if (segment.language, segment.translated_from) == (language, translated_from)
        and segment.language_probability is not None
    ]
    total = sum(length for length, _ in known)
    mean = round(sum(length * share for length, share in known) / total, 4) if total > 0 else None
    return language, mean, translated_from


def _channel(number: int, spoken: Sequence[Segment]) -> Channel:
    (best,) = joined([segment.nbest for segment in spoken if segment.channel == number], 1)
    return Channel(number, best.text, best.score)


IMPROBABLE = "the text is improbable"
"""Begin of the warning about a recording in another language than those of its decoder."""


def speech_warnings(segments: Sequence[Segment], *, is_silent: bool = True) -> tuple[str, ...]:
    """Return a warning for each stretch of speech without a text, or that there is no speech.

    `is_silent` is whether segments without a text say so.
    """
    left = [
        f"speech from {span.start:.1f} to {span.end:.1f} s{channel} was not recognised"
        for segment in segments
        for channel in [f" on channel {segment.channel}" if segment.channel else ""]
        for span in segment.unrecognised
    ]
    if len(left) > MAX_WARNINGS:
        others = len(left) - MAX_WARNINGS
        left[MAX_WARNINGS:] = [f"nor was speech in {others} other places: see the segments"]
    is_silent = is_silent and not (left or any(segment.text for segment in segments))
    return ("no speech was found",) if is_silent else tuple(left)


def with_turns(
    transcript: Transcript,
    turns: Sequence[Turn],
    embeddings: Mapping[str, str] = MappingProxyType({}),
) -> Transcript:
    """Return a transcript with turns, and what follows from them: speakers and overlaps.

    `embeddings` has how speakers sound, by name, if that is requested.
    """
    seconds: dict[str, float] = {}
    for turn in turns:
        seconds[turn.speaker] = seconds.get(turn.speaker, 0.0) + turn.end - turn.start
    speakers = (
        Speaker(name, round(length, 3), embeddings.get(name, UNSET))
        for name, length in sorted(seconds.items())
    )
    overlaps: list[Overlap] = []
    edges = sorted({edge for turn in turns for edge in (turn.start, turn.end)})
    open_turns: list[Turn] = []
    later = deque(sorted(turns, key=lambda turn: turn.start))
    for start, end in pairwise(edges):
        while later and later[0].start <= start:
            open_turns.append(later.popleft())
        open_turns = [turn for turn in open_turns if turn.end > start]
        names = tuple(sorted({turn.speaker for turn in open_turns}))
        if len(names) < 2:
            continue
        if overlaps and (overlaps[-1].end, overlaps[-1].speakers) == (start, names):
            start = overlaps.pop().start
        overlaps.append(Overlap(start, end, names))
    return replace(
        transcript, turns=tuple(turns), speakers=tuple(speakers), overlaps=tuple(overlaps)
    )


def joined_parts(parts: Sequence[Transcript], nbest: int = 1) -> Transcript:
    """Return the transcript of the whole audio from the parts of a streamed answer.

    It equals the answer of `transcribe` to the same request. If the answer broke off, it holds the
    text up to there.
    """
    last = parts[-1]
    segments = last.revised or [segment for part in parts for segment in part.segments]
    whole = about_whole(last, segments, nbest)
    of_last = {name: getattr(last, name) for name in ("extra", "turns", "speakers", "overlaps")}
    return replace(whole, **of_last)


def about_whole(last: Transcript, segments: Sequence[Segment], nbest: int) -> Transcript:
    """Return the transcript of segments, with what the last part says about the whole audio."""
    return transcript_of(
        segments,
        nbest,
        # The duration of each part is counted from the start of the audio.
        duration=last.duration,
        path=last.path,
        stages=last.stages,
        channels=[channel.number for channel in last.channels],
        warnings=last.warnings,
    )
