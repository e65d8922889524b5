"""The ended utterances of a live stream, as far back as its answers repeat them."""

from bisect import bisect_left
from collections.abc import Sequence

from conch.wire.result import Segment


class History:
    """The latest ended utterances of a stream, numbered from its start.

    A stream of a day has 15,000 of them, 50 MB with the times of their words. Its client has them.
    """

    def __init__(self, seconds: float) -> None:
        """Keep utterances that ended at most these seconds before the audio does; 0 keeps all."""
        self._seconds = seconds
        self._segments: list[Segment] = []
        self.first = 0
        """Index of the first utterance that is kept."""

    @property
    def end(self) -> int:
        """Index of the next utterance."""
        return self.first + len(self._segments)

    def append(self, segment: Segment) -> None:
        """Add an utterance, whose index is `end`."""
        self._segments.append(segment)

    def replace(self, segment: Segment) -> None:
        """Replace an utterance that is kept by the one with the same index."""
        self._segments[segment.index - self.first] = segment

    def since(self, index: int) -> Sequence[Segment]:
        """Return the utterances from an index on that is not before `first`."""
        return self._segments[index - self.first :]

    def recent(self, now_s: float) -> int:
        """Return the index of the first utterance to keep when the audio has `now_s` seconds."""
        if not self._seconds:
            return self.first
        oldest = now_s - self._seconds
        return self.first + bisect_left(self._segments, oldest, key=lambda segment: segment.end)

    def forget_before(self, index: int) -> None:
        """Drop the utterances before an index, which is not before `first`."""
        del self._segments[: index - self.first]
        self.first = index
