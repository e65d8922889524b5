"""A noisy telephone line: the band of a telephone, and white noise in it.

The noise is computed from a seed, so everyone has the same.
"""

from collections.abc import Sequence
from functools import cache

import numpy as np
import soxr
from numpy.typing import NDArray

from conch.component import SAMPLE_RATE

TELEPHONE_SAMPLE_RATE = 8_000
TELEPHONE_BAND_HZ = (300.0, 3400.0)
TELEPHONE_SNR_DB = 15.0
"""Ratio of speech without pauses to noise, both in the telephone's band."""
TELEPHONE_TAPS = 255
"""Length of the band's filter: its edges are about 100 Hz wide at 8 kHz."""


def rms(waveform: NDArray[np.float32]) -> float:
    """Return the root mean square; 0 of no samples."""
    return float(np.sqrt(np.mean(np.square(waveform, dtype=np.float64)))) if len(waveform) else 0.0


def amplitude(decibels: float) -> float:
    return float(10 ** (decibels / 20))


def telephone_call(
    waveform: NDArray[np.float32],
    spans: Sequence[tuple[int, int]],
    random: np.random.Generator,
) -> NDArray[np.float32]:
    """Return a waveform at 16 kHz as it leaves a noisy telephone line, at 8 kHz, uncoded.

    `spans` are the first and last sample of each utterance, for the level of the speech. The noise
    is white within the band. The line is scaled down if its peaks would be clipped.
    """
    speech = band_pass(soxr.resample(waveform, SAMPLE_RATE, TELEPHONE_SAMPLE_RATE))
    noise = band_pass(random.standard_normal(len(speech), np.float32))
    spoken = np.concatenate([speech[start // 2 : end // 2] for start, end in spans])
    noise *= np.float32(rms(spoken) / rms(noise) / amplitude(TELEPHONE_SNR_DB))
    line: NDArray[np.float32] = speech + noise
    line /= np.float32(max(1.0, np.abs(line).max()))
    return line


def band_pass(waveform: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return a waveform at 8 kHz in the telephone's band, without delay."""
    # "same" of numpy is as long as the longer of both, which may be the taps.
    undelayed = np.convolve(waveform, _band_taps())[TELEPHONE_TAPS // 2 :]
    filtered: NDArray[np.float32] = undelayed[: len(waveform)]
    return filtered


@cache
def _band_taps() -> NDArray[np.float32]:
    from scipy.signal import firwin  # takes a while

    taps = firwin(TELEPHONE_TAPS, TELEPHONE_BAND_HZ, pass_zero=False, fs=TELEPHONE_SAMPLE_RATE)
    return np.asarray(taps, np.float32)
