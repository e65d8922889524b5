"""How high a voice is."""

import numpy as np

from conch.component import SAMPLE_RATE, DoubleArray, FloatArray

WINDOW, SHIFT = 1024, 320
"""Samples of a frame, 64 ms, and from one to the next."""
LOWEST_HZ, HIGHEST_HZ = 60, 400
VOICED = 0.6
"""Least correlation of a voiced frame with itself one period later."""
NEARLY = 0.9
"""Share of the highest correlation that an earlier peak needs: later ones are whole multiples."""


def median_pitch(waveform: FloatArray) -> float:
    """Return the median pitch of the voiced frames of a waveform at 16 kHz, in Hz; 0 without any.

    The period of a frame is the lag of its first high autocorrelation, divided by that of the
    window (Boersma 1993).
    """
    if len(waveform) < WINDOW:
        return 0.0
    frames = np.lib.stride_tricks.sliding_window_view(waveform, WINDOW)[::SHIFT]
    window = np.hanning(WINDOW)
    correlations = _autocorrelation((frames - frames.mean(axis=1, keepdims=True)) * window)
    energies = correlations[:, 0]
    lags = slice(SAMPLE_RATE // HIGHEST_HZ, SAMPLE_RATE // LOWEST_HZ + 1)
    own = _autocorrelation(window[np.newaxis])[0]
    relative = correlations[:, lags] / np.maximum(energies[:, np.newaxis], 1e-9)
    relative /= own[lags] / own[0]
    highest = relative.max(axis=1)
    is_voiced = (highest > VOICED) & (energies > np.median(energies))
    if not is_voiced.any():
        return 0.0
    relative = relative[is_voiced]
    inner = relative[:, 1:-1]
    is_peak = (inner >= relative[:, :-2]) & (inner >= relative[:, 2:])
    is_high = inner >= NEARLY * highest[is_voiced, np.newaxis]
    first = (is_peak & is_high).argmax(axis=1) + 1 + lags.start
    return float(SAMPLE_RATE / np.median(first))


def _autocorrelation(frames: DoubleArray) -> DoubleArray:
    spectrum = np.fft.rfft(frames, 2 * WINDOW, axis=1)
    made: DoubleArray = np.fft.irfft(spectrum.real**2 + spectrum.imag**2, axis=1)[:, :WINDOW]
    return made
