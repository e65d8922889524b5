"""Noise to measure, and its power in a band."""

import numpy as np
from numpy.typing import NDArray


def random(seed: int = 1) -> np.random.Generator:
    return np.random.default_rng(seed)


def power(waveform: NDArray[np.float32], sample_rate: int, low: float, high: float) -> float:
    """Return the mean power per Hz between two frequencies."""
    spectrum = np.abs(np.fft.rfft(waveform)) ** 2
    hertz = np.fft.rfftfreq(len(waveform), 1 / sample_rate)
    return float(spectrum[(hertz >= low) & (hertz < high)].mean())


def decibels(ratio: float) -> float:
    return 10 * float(np.log10(ratio))
