"""Speech as it is heard over a telephone, drawn from a seed."""

import numpy as np
import soxr
from numpy.typing import NDArray
from scipy.signal import firwin, lfilter

from conch.component import SAMPLE_RATE
from lab.telephone import TELEPHONE_SAMPLE_RATE, amplitude, rms
from lab.waveforms import coded

LOW_HZ, HIGH_HZ = (150, 330), (3150, 3800)
"""Ranges of a line's edges."""
TAPS = (101, 181, 255)
TILT = 0.5
"""Largest coefficient of a filter of two taps, which makes a line brighter or duller."""
DBFS, SNR_DB = (-32, -18), (15, 45)
CODECS = {"ULAW": 0.4, "ALAW": 0.25, "GSM610": 0.2, "PCM_16": 0.15}
"""How often a call is coded in which way; libsndfile has these."""


def called(waveform: NDArray[np.float32], random: np.random.Generator) -> NDArray[np.float32]:
    """Return a waveform, mono at 16 kHz, after a telephone call, at 16 kHz again."""
    edges = [random.uniform(*LOW_HZ), random.uniform(*HIGH_HZ)]
    taps = firwin(int(random.choice(TAPS)), edges, pass_zero=False, fs=TELEPHONE_SAMPLE_RATE)
    line = soxr.resample(waveform, SAMPLE_RATE, TELEPHONE_SAMPLE_RATE)
    if random.random() < 0.85:  # others have all of the band
        line = np.convolve(line, taps, "same")
    if random.random() < 0.4:
        line = lfilter([1, random.uniform(-TILT, TILT)], [1], line)
    line = line * amplitude(random.uniform(*DBFS)) / max(rms(line.astype(np.float32)), 1e-6)
    noise = random.standard_normal(len(line))
    if random.random() < 0.5:
        noise = np.convolve(noise, taps, "same")
    level = amplitude(-random.uniform(*SNR_DB))
    noise = noise * rms(line.astype(np.float32)) / rms(noise.astype(np.float32)) * level
    codec = str(random.choice(list(CODECS), p=list(CODECS.values())))
    sent = np.clip(line + noise, -1, 1).astype(np.float32)
    decoded = coded(sent, TELEPHONE_SAMPLE_RATE, codec)
    back = soxr.resample(decoded, TELEPHONE_SAMPLE_RATE, SAMPLE_RATE)
    return np.asarray(back, np.float32)
