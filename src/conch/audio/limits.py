"""The limits of sample rate, duration and level."""

import math
from typing import TYPE_CHECKING

from conch.wire.errors import AudioError

if TYPE_CHECKING:  # a process that decodes has no numpy
    from conch.component import Array

MIN_SAMPLE_RATE = 4_000
MAX_SAMPLE_RATE = 192_000

MAX_PEAK = 10.0
"""Largest sample value. Codecs exceed full scale a little; integers sent as floats by far."""


def check_rate(sample_rate: int, name: str) -> None:
    """Raise an AudioError, which begins with `name`, unless a rate in Hz is within its limits."""
    if not MIN_SAMPLE_RATE <= sample_rate <= MAX_SAMPLE_RATE:
        raise AudioError(
            f"{name} takes {MIN_SAMPLE_RATE} to {MAX_SAMPLE_RATE} Hz; sent: {sample_rate!r:.40}"
        )


def check_duration(seconds: float, max_audio_s: float) -> None:
    """Raise an AudioError if the audio is longer than `max_audio_s`."""
    if seconds > max_audio_s:
        raise AudioError(
            f"the audio is {seconds:.1f} s long; this server takes at most {max_audio_s:g} s "
            "(parameter max_audio_s of the model)"
        )


def peak(samples: "Array", name: str) -> float:
    """Return the largest absolute value of samples, FP32 of any shape, not empty.

    Raise an AudioError, which begins with `name`, if one is not finite or far outside [-1, 1].
    """
    found = max(float(samples.max()), -float(samples.min()))
    if not math.isfinite(found):
        raise AudioError(f"{name} has samples that are NaN or infinite")
    if found > MAX_PEAK:
        raise AudioError(
            f"{name} reaches {found:g}; samples are in [-1, 1]: divide 16-bit samples by 32768, or "
            "send them as PCM16"
        )
    return found
