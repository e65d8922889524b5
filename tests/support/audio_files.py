"""Audio files in memory, whole and in frames."""

import io
from typing import Any

import numpy as np
import soundfile
from numpy.typing import NDArray


def audio_file(
    samples: NDArray[Any], rate: int, subtype: str | None = None, format: str = "WAV", **more: Any
) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, samples, rate, subtype, format=format, **more)
    return file.getvalue()


def cut(data: bytes, seed: int, most: int) -> list[bytes]:
    """Cut bytes into frames of 1 to `most` bytes."""
    random, frames = np.random.default_rng(seed), []
    while data:
        size = int(random.integers(1, most + 1))
        frames.append(data[:size])
        data = data[size:]
    return frames
