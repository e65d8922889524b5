"""Join several answers to one: sum their calls, and merge their segments."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from conch.wire.result import RollingPasses, Segment, Stage, Transcript, summed_stages


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
    found = {segment.index: segment for segment in segments}
    return tuple(found[index] for index in sorted(found))


def joined_answers(answers: Sequence[Transcript]) -> Transcript:
    """Join the answers to the frames of one chunk; there is at least one."""
    if len(answers) == 1:
        return answers[0]
    calls = SummedCalls()
    for answer in answers:
        calls.add(answer)
    segments = latest_segments(segment for answer in answers for segment in answer.segments)
    return replace(answers[-1], segments=segments, path=calls.path, stages=calls.stages)
