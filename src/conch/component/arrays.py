"""Type aliases of numpy arrays, and the softmax of log probabilities."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
FloatArray = NDArray[np.float32]
DoubleArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


def log_softmax(logits: FloatArray) -> FloatArray:
    """Return log probabilities `[N, units]` of logits, float32 `[N, units]`."""
    shifted: FloatArray = logits - logits.max(axis=1, keepdims=True)
    shifted -= np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return shifted
