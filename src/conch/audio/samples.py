"""The two sample types of a request: floats in WAV, 16-bit integers in PCM16."""

import numpy as np

from conch.component import Array, FloatArray

STEP = np.float32(2**-15)
"""Difference of two neighbouring 16-bit samples. A power of two, so that no sample is rounded."""


def tensor_of(samples: Array) -> str:
    """Return the name of the tensor that carries samples of this type."""
    return "PCM16" if samples.dtype == np.int16 else "WAV"


def as_floats(samples: Array) -> FloatArray:
    """Return samples of any shape as FP32; INT16 is divided by 32768, FP32 stays as it is."""
    if samples.dtype != np.int16:
        return samples
    return np.multiply(samples, STEP, dtype=np.float32)
