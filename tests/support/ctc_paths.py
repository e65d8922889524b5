"""Log probabilities made of a path in letters."""

import numpy as np

from conch.decoding.units import Characters


def log_probs_of(path: str, peak: float = 0.9) -> np.ndarray:
    """Return log probabilities of a path in letters, `-` for blank, each frame as probable."""
    units = [0 if item == "-" else Characters.vocab.index(item) for item in path]
    probs = np.full((len(path), 29), (1 - peak) / 28, np.float32)
    probs[np.arange(len(path)), units] = peak
    return np.log(probs)
