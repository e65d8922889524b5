"""Log-mel filter banks as Kaldi computes them (`feat/feature-fbank.cc`)."""

from functools import cache

import numpy as np
import scipy.fft

from conch.component.arrays import DoubleArray, FloatArray
from conch.component.waveform import SAMPLE_RATE

BANDS = 80
FRAME_SHIFT, FRAME_LENGTH = 160, 400
"""Samples: 10 and 25 ms."""
_FFT = 512
_LOWEST_HZ = 20.0
_PRE_EMPHASIS = 0.97
_SCALE = 32768.0
"""Kaldi's samples are those of 16-bit files."""
_FLOOR = np.float32(1.1920929e-07)


def fbank(waveform: FloatArray) -> FloatArray:
    """Return log-mel energies, float32 `[frames, 80]`, of float32 `[samples]` at 16 kHz.

    There are no frames beyond the edges: of less than 400 samples there is none.
    """
    if len(waveform) < FRAME_LENGTH:
        return np.zeros((0, BANDS), np.float32)
    frames = np.lib.stride_tricks.sliding_window_view(waveform, FRAME_LENGTH)[::FRAME_SHIFT]
    frames = frames * np.float32(_SCALE)
    frames -= frames.mean(axis=1, keepdims=True)
    # The first sample has itself before it.
    before = np.concatenate((frames[:, :1], frames[:, :-1]), axis=1)
    frames -= np.float32(_PRE_EMPHASIS) * before
    spectrum = scipy.fft.rfft(frames * _window(), _FFT, axis=1)
    power = spectrum.real**2 + spectrum.imag**2
    energies: FloatArray = np.log(np.maximum(power[:, :-1] @ _filters(), _FLOOR))
    return energies


@cache
def _window() -> FloatArray:
    """Return Povey's window: Hann's to the power of 0.85."""
    return (np.hanning(FRAME_LENGTH) ** 0.85).astype(np.float32)


@cache
def _filters() -> FloatArray:
    """Return the triangular filters, float32 `[256, 80]`."""
    edges = _edges()
    bins = _mel(np.arange(_FFT // 2) * SAMPLE_RATE / _FFT)[:, None]
    rising = (bins - edges[:-2]) / np.diff(edges)[:-1]
    falling = (edges[2:] - bins) / np.diff(edges)[1:]
    return np.asarray(np.maximum(0.0, np.minimum(rising, falling)), np.float32)


def _edges() -> DoubleArray:
    """Return where triangles begin, peak and end, in mel: `[82]`."""
    return np.linspace(_mel(_LOWEST_HZ), _mel(SAMPLE_RATE / 2), BANDS + 2)


def _mel(hertz: float | DoubleArray) -> DoubleArray:
    return np.asarray(1127.0 * np.log1p(np.asarray(hertz) / 700.0))
