"""Log probabilities of what a network writes."""

import numpy as np

from conch.component.arrays import FloatArray


def log_softmax(logits: FloatArray) -> FloatArray:
    """Return log probabilities `[N, units]` of logits, float32 `[N, units]`."""
    shifted: FloatArray = logits - logits.max(axis=1, keepdims=True)
    shifted -= np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return shifted
