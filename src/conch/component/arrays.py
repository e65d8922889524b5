"""Arrays of components: their types, waveforms at 16 kHz, and log probabilities."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
FloatArray = NDArray[np.float32]
DoubleArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
SAMPLE_RATE = 16_000
"""Samples per second of every waveform that a component takes."""
VAD_FRAME_SAMPLES = 512
"""Samples per speech probability: 32 ms, the frame of Silero VAD."""
VAD_STATE_SIZE = 320
"""Values of the VAD's memory: h and c of Silero's LSTM, 128 each, and the last 64 samples."""


def log_softmax(logits: FloatArray) -> FloatArray:
    """Return log probabilities `[N, units]` of logits, float32 `[N, units]`."""
    shifted: FloatArray = logits - logits.max(axis=1, keepdims=True)
    shifted -= np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return shifted
