"""A transcript and its parts: what a stream brings piece by piece is what one answer holds."""

from collections.abc import Mapping, Sequence

from conch.wire.nbest import joined
from conch.wire.result import Channel, Segment, Stage, Transcript


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
    """Return the transcript of the segments that have a text, or miss one.

    Args:
        segments: in order of time.
        nbest: how many hypotheses it has at most.
        duration, path, stages, warnings: fields of `Transcript`.
        channels: the numbers of those that are recognised by themselves.
    """
    spoken = tuple(segment for segment in segments if segment.text or segment.unrecognised)
    return Transcript(
        nbest=joined([segment.nbest for segment in spoken], nbest),
        segments=spoken,
        duration=duration,
        path=path,
        stages=stages,
        channels=tuple(_channel(number, spoken) for number in channels),
        warnings=warnings,
    )


def _channel(number: int, spoken: Sequence[Segment]) -> Channel:
    (best,) = joined([segment.nbest for segment in spoken if segment.channel == number], 1)
    return Channel(number, best.text, best.score)


def joined_parts(parts: Sequence[Transcript], nbest: int = 1) -> Transcript:
    """Return the transcript of the whole audio from the parts of its stream.

    It equals the answer to the same request by `transcribe`. If the stream broke off, it holds what
    was known by then.

    Args:
        parts: all parts in the order in which they came, at least one.
        nbest: the option of the request, which the parts do not hold.
    """
    last = parts[-1]
    return transcript_of(
        [segment for part in parts for segment in part.segments],
        nbest,
        # Each part counts from the start of the audio, so that nothing is to be added up.
        duration=last.duration,
        path=last.path,
        stages=last.stages,
        channels=[channel.number for channel in last.channels],
        warnings=last.warnings,
    )
