"""A stretch of speech to recognise."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from conch.audio.segmentation import frames_between
from conch.component import SAMPLE_RATE, Array


class Frames(Protocol):
    """The output of an encoder that a live first pass keeps of an utterance."""

    def part(self, start: float, end: float) -> "Frames":
        """Return the output for a part; `start` and `end` are shares of the audio."""
        ...


def saying(text: str) -> Callable[[], Awaitable[str]]:
    """Return a function that returns a known text."""

    async def said() -> str:
        return text

    return said


nothing = saying("")
"""The text before the first segment."""


@dataclass(frozen=True, slots=True)
class SpeechSegment:
    """A stretch of audio to recognise."""

    start: float
    """Start in the audio, in seconds."""
    waveform: Array
    """FP32 [samples], 16 kHz."""
    speech_probs: Array
    """Speech probabilities, FP32 [frames] of 32 ms each."""
    encoded: Mapping[str, Frames] = field(default_factory=dict)
    """What a live first pass has encoded already, by the encoder that need not be called for it."""
    said_before: Callable[[], Awaitable[str]] = nothing
    """Returns the text before the segment, as soon as it is known."""
    draft: str = ""
    """Text that a live stream has found in it; it changes none, but a greedy search needs fewer
    steps."""

    @property
    def duration(self) -> float:
        return len(self.waveform) / SAMPLE_RATE

    @property
    def end(self) -> float:
        return self.start + self.duration

    def part(self, start: float, end: float) -> "SpeechSegment":
        """Return the part between two times, in seconds from the segment's start.

        A later part does not know what was said before it.
        """
        samples = round(start * SAMPLE_RATE), round(end * SAMPLE_RATE)
        return SpeechSegment(
            self.start + start,
            self.waveform[slice(*samples)],
            frames_between(self.speech_probs, *samples),
            {
                name: frames.part(start / self.duration, end / self.duration)
                for name, frames in self.encoded.items()
            },
            said_before=nothing if start else self.said_before,
        )
