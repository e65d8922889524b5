"""The ended utterances of a live stream, as far back as its answers tell them."""

from bisect import bisect_left
from collections.abc import Sequence

from conch.wire.result import Segment


class History:
    """The latest ended utterances of a stream, numbered from its start.

    A stream of a day has 15,000 of them, 50 MB with the times of their words. Its client has them.
    """

    def __init__(self, seconds: float) -> None:
        """Start without utterances.

        Args:
            seconds: How long before the end of the audio an utterance may have ended that is kept;
                0 keeps all.
        """
        self._seconds = seconds
        self._segments: list[Segment] = []
        self.first = 0
        """Index of the first utterance that is kept."""
        self.latest_text = ""
        """What was said in the last utterance, kept or not, before the text steps."""

    @property
    def end(self) -> int:
        """Index of the next utterance."""
        return self.first + len(self._segments)

    def append(self, segment: Segment, said: str) -> None:
        """Add an utterance, whose index is `end`.

        Args:
            said: Its text before the text steps.
        """
        self._segments.append(segment)
        self.latest_text = said

    def replace(self, segment: Segment) -> None:
        """Replace an utterance that is kept by the one with the same index."""
        self._segments[segment.index - self.first] = segment

    def since(self, index: int) -> Sequence[Segment]:
        """Return the utterances from an index on that is not before `first`."""
        return self._segments[index - self.first :]

    def recent(self, now_s: float) -> int:
        """Return the index of the first utterance within the seconds to keep, `end` for none.

        Args:
            now_s: End of the audio, in seconds of the stream.
        """
        if not self._seconds:
            return self.first
        oldest = now_s - self._seconds
        return self.first + bisect_left(self._segments, oldest, key=lambda segment: segment.end)

    def forget_before(self, index: int) -> None:
        """Drop the utterances before an index, which is not before `first`."""
        del self._segments[: index - self.first]
        self.first = index
