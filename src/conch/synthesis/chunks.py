"""Cut the frames of a sentence into chunks, each with the frames that its sound depends on."""

from collections.abc import Iterator
from dataclasses import dataclass

from conch.families.family import Synthesizer

SHARE_OF_LEAD = 4
"""How many times shorter a chunk is than the audio that is still to be played."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A stretch of frames that is spoken, inside one that the vocoder gets."""

    start: int
    end: int
    first: int
    """First frame that the vocoder gets."""
    last: int
    """Frame after the last that the vocoder gets."""


@dataclass(slots=True)
class Growth:
    """The length of the next chunk: it starts short, so that the first sound is early."""

    frames: int
    most: int
    factor: float

    @classmethod
    def of(cls, synthesizer: Synthesizer, lead_s: float = 0.0) -> "Growth":
        """Return the growth of a text before which `lead_s` seconds are still to be played."""
        most, rate = synthesizer.most_frames, synthesizer.sample_rate
        frames = lead_s / SHARE_OF_LEAD * rate / synthesizer.frame_samples
        first = min(most, max(synthesizer.first_frames, frames))
        return cls(round(first), most, synthesizer.growth)

    def chunks(self, frames: int, before: int, after: int) -> Iterator[Chunk]:
        """Yield ever longer chunks, whose sound depends on the frames `before` and `after` each."""
        start = 0
        while start < frames:
            left = frames - start
            # A rest is not worth a call of its own.
            length = left if left <= self.frames * 3 // 2 else self.frames
            end = start + length
            yield Chunk(start, end, max(0, start - before), min(frames, end + after))
            start, self.frames = end, min(self.most, round(self.frames * self.factor))
