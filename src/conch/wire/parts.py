"""Build a transcript from segments, and join the parts of a streamed answer."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from conch.wire.nbest import joined
from conch.wire.result import Channel, Segment, Stage, Transcript

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
    """Return the transcript of segments; those without a text or unrecognised speech are left out.

    Args:
        segments: Segments in order of time.
        nbest: Largest number of hypotheses of the transcript.
        duration: Field of `Transcript`, as `path`, `stages` and `warnings`.
        path: Components that were called.
        stages: Calls by component.
        channels: Numbers of the channels that were transcribed by themselves.
        warnings: Problems of the audio.
    """
    found = spoken(segments)
    language, probability, translated_from = language_of(found)
    return Transcript(
        nbest=joined([segment.nbest for segment in found], nbest),
        segments=found,
        duration=duration,
        path=path,
        stages=stages,
        channels=tuple(_channel(number, found) for number in channels),
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


def speech_warnings(found: Sequence[Segment]) -> tuple[str, ...]:
    """Return a warning for each stretch of speech without a text, or that there is no speech."""
    left = [
        f"speech from {span.start:.1f} to {span.end:.1f} s{channel} was not recognised"
        for segment in found
        for channel in [f" on channel {segment.channel}" if segment.channel else ""]
        for span in segment.unrecognised
    ]
    if len(left) > MAX_WARNINGS:
        others = len(left) - MAX_WARNINGS
        left[MAX_WARNINGS:] = [f"nor was speech in {others} other places: see the segments"]
    silent = () if left or any(segment.text for segment in found) else ("no speech was found",)
    return (*silent, *left)


def joined_parts(parts: Sequence[Transcript], nbest: int = 1) -> Transcript:
    """Return the transcript of the whole audio from the parts of a streamed answer.

    It equals the answer of `transcribe` to the same request. If the answer broke off, it holds the
    text up to there.

    Args:
        parts: All parts in the order of their arrival, at least one.
        nbest: The option of the request.
    """
    last = parts[-1]
    segments = last.revised or [segment for part in parts for segment in part.segments]
    return replace(about_whole(last, segments, nbest), extra=last.extra)


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
