"""Decode files before a measurement, so that decoding does not count."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile
from numpy.typing import NDArray

from conch.wire.errors import BenchError


@dataclass(frozen=True, slots=True)
class Recording:
    waveform: NDArray[np.float32]
    """Mono samples in [-1, 1]; channels are averaged."""
    sample_rate: int
    """Hz."""

    @property
    def duration_s(self) -> float:
        return len(self.waveform) / self.sample_rate


def decode(path: Path) -> Recording:
    """Decode a file that libsndfile reads."""
    try:
        samples, sample_rate = soundfile.read(path, dtype="float32", always_2d=True)
    except (OSError, soundfile.LibsndfileError) as error:
        raise BenchError(f"{path} cannot be decoded: {error}") from None
    if not len(samples):
        raise BenchError(f"{path} holds no samples")
    return Recording(np.ascontiguousarray(samples.mean(axis=1)), int(sample_rate))
