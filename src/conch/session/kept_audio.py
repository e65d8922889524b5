"""Keep the audio of a live stream that the next stream may need."""

from collections import deque
from typing import Any

from numpy.typing import NDArray

MAX_KEPT_S = 180.0
"""Most seconds of audio to keep. The longest open utterance and four that await their second pass
have 140 s."""


class KeptAudio:
    """The samples of a session from the current cut on; samples count from the session's start."""

    def __init__(self, sample_rate: int, start: int = 0) -> None:
        self._most = round(MAX_KEPT_S * sample_rate)
        self._chunks: deque[NDArray[Any]] = deque()
        self.start = self.end = start
        """First sample that is kept, and the first one after all that is kept."""

    def add(self, samples: NDArray[Any]) -> None:
        """Keep a copy of a chunk of samples [N]."""
        if len(samples):  # a stream that pauses sends an empty one every half second
            self._chunks.append(samples.copy())
            self.end += len(samples)

    def take_back(self, sample: int) -> None:
        """Remove the last chunk, which began with `sample`; nothing if it was empty."""
        if self.end > sample:
            self._chunks.pop()
            self.end = sample

    def drop_before(self, sample: int) -> None:
        """Drop the chunks before a sample, and the oldest ones beyond MAX_KEPT_S."""
        while self._chunks:
            behind = self.start + len(self._chunks[0])
            if behind > sample and self.end - self.start <= self._most:
                break
            self._chunks.popleft()
            self.start = behind

    def between(self, start: int, end: int) -> list[NDArray[Any]]:
        """Return the samples from `start` up to `end`, where a chunk ends, in their chunks."""
        found = []
        at = self.start
        for chunk in self._chunks:
            if at < end and at + len(chunk) > start:
                found.append(chunk[max(0, start - at) :])
            at += len(chunk)
        return found
