"""Log-mel features of Whisper (Radford et al., 2022, https://arxiv.org/abs/2212.04356, 2.2)."""

from functools import cache

import numpy as np
import scipy.fft

from conch.component import SAMPLE_RATE, FloatArray

FRAME_SHIFT = 160
"""Samples from one frame to the next: 10 ms."""
N_FFT = 400

# Slaney's Auditory Toolbox (1998): linear to 1 kHz = 15 mel, then 27 mel for a factor of 6.4.
_MEL_PER_HERTZ = 3.0 / 200.0
_MEL_PER_NEPER = 27.0 / np.log(6.4)
_SILENCE = 1e-10
"""Smallest mel power of Whisper, which is that of digital silence."""
STREAMING_FLOOR = 1e-7
"""Smallest mel power of `streaming_log_mel`. Whisper clips at 8 below the log10 maximum of the
utterance, which is 1 to 1.6 for speech in most recordings."""
HISTORY = N_FFT - FRAME_SHIFT
"""Samples before the 160 of a frame that `streaming_log_mel` also uses: 15 ms."""


def log_mel_spectrogram(waveform: FloatArray, num_frames: int, n_mels: int = 80) -> FloatArray:
    """Return Whisper's features of a waveform, padded with silence to `num_frames` frames.

    All frames within the padding are equal, so that the cost depends on the length of the waveform
    and not on that of the window.

    `waveform` is float32 `[samples]`, 16 kHz; samples beyond the last frame are ignored. Frames
    have 10 ms. `n_mels` is 80, or 128 for Whisper large-v3. The result is float32 `[n_mels,
    num_frames]`: log10 power, clipped to 8 below its maximum and scaled to about [-1, 1].
    """
    half = N_FFT // 2
    used = waveform[: (num_frames - 1) * FRAME_SHIFT + half].astype(np.float32, copy=False)
    # A sample reaches frames whose centre is up to half an FFT after it.
    active = min(num_frames, (len(used) + half) // FRAME_SHIFT + 1)
    power = _power_spectrum(used, active)
    log_mel = np.full((n_mels, num_frames), np.log10(_SILENCE), dtype=np.float32)
    np.log10(np.maximum(mel_filters(n_mels) @ power.T, _SILENCE), out=log_mel[:, :active])
    np.maximum(log_mel, log_mel.max() - 8.0, out=log_mel)
    return (log_mel + 4.0) / 4.0


def streaming_log_mel(waveform: FloatArray, n_mels: int = 80) -> FloatArray:
    """Return log-mel features that do not depend on later audio.

    Frame t needs the samples up to 160 (t + 1): its own 160 and the `HISTORY` before them. A stream
    that keeps its last `HISTORY` samples, zeros at its start, gets the same features for chunks of
    any length as for the whole.

    `waveform` is float32 `[HISTORY + 160 frames]`, 16 kHz; up to 159 further samples are ignored.
    The result is float32 `[frames, n_mels]`, scaled as in Whisper, with a fixed minimum of -0.75.
    """
    if len(waveform) < N_FFT:
        return np.zeros((0, n_mels), dtype=np.float32)
    frames = np.lib.stride_tricks.sliding_window_view(waveform, N_FFT)[::FRAME_SHIFT]
    mel = _power(frames.astype(np.float32, copy=False)) @ mel_filters(n_mels).T
    log_mel: FloatArray = (np.log10(np.maximum(mel, STREAMING_FLOOR)) + 4.0) / 4.0
    return log_mel.astype(np.float32, copy=False)


def _power_spectrum(waveform: FloatArray, num_frames: int) -> FloatArray:
    """Return the power `[num_frames, 201]`. Frame t is centred on sample 160 t."""
    half = N_FFT // 2
    length = max((num_frames - 1) * FRAME_SHIFT + N_FFT, half + len(waveform))
    padded = np.zeros(length + 1, dtype=np.float32)  # + 1: the mirrored start needs 201 samples
    padded[half : half + len(waveform)] = waveform
    padded[:half] = padded[half + 1 : N_FFT + 1][::-1]
    frames = np.lib.stride_tricks.sliding_window_view(padded, N_FFT)[::FRAME_SHIFT][:num_frames]
    return _power(frames)


def _power(frames: FloatArray) -> FloatArray:
    spectrum = scipy.fft.rfft(frames * window(), axis=1)
    return np.asarray(spectrum.real**2 + spectrum.imag**2)


@cache
def window() -> FloatArray:
    """Return the Hann window, float32 `[400]`."""
    return np.hanning(N_FFT + 1)[:-1].astype(np.float32)  # periodic, as torch.hann_window


@cache
def mel_filters(n_mels: int) -> FloatArray:
    """Return the triangular filters, float32 `[n_mels, 201]`, on Slaney's mel scale and norm.

    They equal `librosa.filters.mel(sr=16000, n_fft=400, n_mels=n_mels)`, as a test checks. librosa
    imports numba, which costs each server process a second and 130 MB.
    """
    highest = 15.0 + _MEL_PER_NEPER * np.log(SAMPLE_RATE / 2 / 1000.0)
    mel = np.linspace(0.0, highest, n_mels + 2)
    hertz = np.where(
        mel < 15.0, mel / _MEL_PER_HERTZ, 1000.0 * np.exp((mel - 15.0) / _MEL_PER_NEPER)
    )
    bins = np.linspace(0.0, SAMPLE_RATE / 2, N_FFT // 2 + 1)
    distance = hertz[:, None] - bins[None, :]
    width = np.diff(hertz)[:, None]
    rising, falling = -distance[:-2] / width[:-1], distance[2:] / width[1:]
    triangles = np.maximum(0.0, np.minimum(rising, falling))
    area = (hertz[2:] - hertz[:-2])[:, None] / 2.0
    return np.asarray((triangles / area).astype(np.float32))
