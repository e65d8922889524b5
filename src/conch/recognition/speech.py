"""A stretch of speech to recognise, and what the acoustic models hear in it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import numpy as np

from conch.audio.segmentation import frames_between
from conch.bls.calls import Calls
from conch.component import Array
from conch.component.waveform import SAMPLE_RATE
from conch.recognition import ctc_roles, roles
from conch.recognition.ctc_roles import LogProbs
from conch.recognition.roles import EncodedSegment


def saying(text: str) -> Callable[[], Awaitable[str]]:
    """Return what returns a known text."""

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
    log_probs: Array | None = None
    """Log probabilities of the CTC model, FP32 [frames, units], if a first pass has them."""
    said_before: Callable[[], Awaitable[str]] = nothing
    """Returns the text before the segment, as soon as it is known."""

    @property
    def duration(self) -> float:
        """Length in seconds."""
        return len(self.waveform) / SAMPLE_RATE

    @property
    def end(self) -> float:
        """End in the audio, in seconds."""
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
            self._log_probs_between(start, end),
            said_before=nothing if start else self.said_before,
        )

    def _log_probs_between(self, start: float, end: float) -> Array | None:
        if self.log_probs is None:
            return None
        return share_of(self.log_probs, start / self.duration, end / self.duration)


def share_of(frames: Array, start: float, end: float) -> Array:
    """Return the frames of a part of a waveform.

    Args:
        frames: [frames, …], of all of the waveform.
        start: Start of the part, as a share of the waveform.
        end: End of the part, as a share of the waveform.
    """
    return frames[round(start * len(frames)) : round(end * len(frames))]


class Heard:
    """The outputs of the encoders for a segment: each is called once, and only if needed."""

    def __init__(self, speech: SpeechSegment, calls: Calls) -> None:
        """Call nothing yet.

        Args:
            speech: The segment.
            calls: Calls of the request.
        """
        self.speech, self._calls = speech, calls
        self._encoded: EncodedSegment | None = None
        self._log_probs: LogProbs | None = None
        if speech.log_probs is not None:
            length = np.array([len(speech.log_probs)], np.int32)
            self._log_probs = LogProbs(speech.log_probs, length)

    async def encoded(self) -> EncodedSegment:
        """Return the attention encoder's hidden states."""
        if self._encoded is None:
            self._encoded = await roles.encode(self._calls, self.speech.waveform)
        return self._encoded

    async def log_probs(self) -> LogProbs:
        """Return the CTC encoder's log probabilities."""
        if self._log_probs is None:
            self._log_probs = await ctc_roles.encode(self._calls, self.speech.waveform)
        return self._log_probs
