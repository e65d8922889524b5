"""The utterances of a live session, and which of them an answer has changed."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from conch.session.resume_state import LOST
from conch.wire.result import Segment, Transcript

MAX_LABELLED = 100
"""Latest utterances whose speakers may still change."""


@dataclass(frozen=True, slots=True)
class LiveSegment:
    """An utterance that has ended."""

    segment: Segment
    """The utterance, on the clock of the session. `endpoint` is `silence`, `length`, `finalize`, or
    `end` of the session."""
    is_final: bool
    """False while its second pass is to come."""
    is_relabelled: bool = False
    """Whether it was final before, and only its speakers are others."""


class SegmentChanges:
    """Finds what is new in the answers of one stream."""

    def __init__(self) -> None:
        self._speakers: dict[int, tuple[str, ...]] = {}
        """Speakers of the words of the latest segments, by their indices."""

    def of(
        self, answer: Transcript, news: Mapping[int, bool], endpoint: str
    ) -> tuple[LiveSegment, ...]:
        """Return the segments of an answer that are in `news`, or have other speakers than before.

        `news` has whether each has its last text, by index; see `JoinedStreams`.
        """
        changes = []
        for segment in answer.segments:
            is_known = segment.index not in news
            if not self._takes_speakers(segment) and is_known:
                continue
            if segment.endpoint == "end":
                segment = replace(segment, endpoint=endpoint)
            elif segment.endpoint == LOST and not segment.text:
                segment = replace(segment, error="")  # the next stream has heard it again
            is_final = news.get(segment.index, True)
            changes.append(LiveSegment(segment, is_final, is_relabelled=is_known))
        return tuple(changes)

    def _takes_speakers(self, segment: Segment) -> bool:
        """Return whether a segment has other speakers than before."""
        speakers = tuple(str(word.speaker) for word in segment.words) if segment.speaker else ()
        before = self._speakers.get(segment.index, ())
        if speakers:
            self._speakers[segment.index] = speakers
            while len(self._speakers) > MAX_LABELLED:
                del self._speakers[min(self._speakers)]
        return speakers != before
