"""Keep the audio of a live stream that the next stream may need."""

from collections import deque
from typing import Any

from numpy.typing import NDArray

MAX_KEPT_S = 180.0
"""Most seconds of audio to keep. The longest open utterance and four that await their second pass
have 140 s."""


class KeptAudio:
    """The samples of a session from the current cut on."""

    def __init__(self, sample_rate: int) -> None:
        """Begin without audio.

        Args:
            sample_rate: Hz of the samples.
        """
        self._most = round(MAX_KEPT_S * sample_rate)
        self._chunks: deque[tuple[int, NDArray[Any]]] = deque()
        self.start = 0
        """Number in the session of the first sample that is kept."""
        self._size = 0

    @property
    def end(self) -> int:
        """Number in the session of the first sample after all that is kept."""
        return self.start + self._size

    def add(self, number: int, samples: NDArray[Any]) -> None:
        """Keep a copy of the samples [N] of a chunk of this number."""
        if not len(samples):  # a stream that pauses sends one every half second
            return
        self._chunks.append((number, samples.copy()))
        self._size += len(samples)

    def remove(self, number: int) -> None:
        """Remove a chunk that the server has refused."""
        for item in self._chunks:
            if item[0] == number:
                self._chunks.remove(item)
                self._size -= len(item[1])
                return

    def drop_before(self, sample: int, number: int) -> None:
        """Drop the chunks before a sample, and the oldest ones beyond MAX_KEPT_S.

        Args:
            sample: Number in the session of the first sample that is needed.
            number: First chunk that is always kept.
        """
        while self._chunks and self._chunks[0][0] < number:
            length = len(self._chunks[0][1])
            if self.start + length > sample and self._size <= self._most:
                break
            self._chunks.popleft()
            self.start += length
            self._size -= length

    def before(self, number: int, sample: int) -> list[NDArray[Any]]:
        """Return the samples from `sample` on, of all chunks before `number`."""
        found = []
        at = self.start
        for chunk_number, samples in self._chunks:
            if chunk_number >= number:
                break
            left = samples[max(0, sample - at) :]
            at += len(samples)
            if len(left):
                found.append(left)
        return found
