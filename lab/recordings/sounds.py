"""Make recordings harder: noise and music.

All of it is computed, so everyone has the same and needs no recordings of noise.
"""

from functools import cache

import numpy as np
from numpy.typing import NDArray

from lab.telephone import rms

FAINT_DBFS = -70.0
"""RMS of a quiet room in a good microphone."""

FADE_S = 0.02
"""Fade at either end of a sound, so that it does not click."""

CHORDS_HZ = (
    (261.63, 329.63, 392.00, 523.25),  # C
    (196.00, 246.94, 293.66, 392.00),  # G
    (220.00, 261.63, 329.63, 440.00),  # A minor
    (174.61, 220.00, 261.63, 349.23),  # F
)
NOTE_S = 0.25
"""Each chord is played as an arpeggio, up and down, above its lowest note."""
HARMONICS = (1.0, 0.5, 0.25, 0.125)
"""Amplitudes of a note's partials."""


def faded(waveform: NDArray[np.float32], sample_rate: int) -> NDArray[np.float32]:
    length = min(round(FADE_S * sample_rate), len(waveform) // 2)
    ramp = np.linspace(0, 1, length, endpoint=False, dtype=np.float32)
    gains = np.ones(len(waveform), np.float32)
    gains[:length] = ramp
    gains[len(waveform) - length :] = ramp[::-1]
    return waveform * gains


def pink_noise(samples: int, random: np.random.Generator) -> NDArray[np.float32]:
    """Return noise of RMS 1 whose power falls by 3 dB an octave, as that of most rooms does."""
    spectrum = np.fft.rfft(random.standard_normal(samples))
    # Remove the mean, which a microphone does not record.
    spectrum[0] = 0
    spectrum[1:] /= np.sqrt(np.arange(1, len(spectrum)))
    return _of_rms_1(np.fft.irfft(spectrum, samples).astype(np.float32))


def music(start: int, end: int, sample_rate: int) -> NDArray[np.float32]:
    """Return samples `start` to `end` of a tune of RMS 1 that is played over and over."""
    tune = _tune(sample_rate)
    played: NDArray[np.float32] = tune[np.arange(start, end) % len(tune)]
    return played


@cache
def _tune(sample_rate: int) -> NDArray[np.float32]:
    length = round(NOTE_S * sample_rate)
    bars = []
    for chord in CHORDS_HZ:
        rising_and_falling = (*chord, *chord[::-1])
        melody = np.concatenate([_note(hertz, length, sample_rate) for hertz in rising_and_falling])
        bars.append(melody + _note(chord[0] / 2, len(melody), sample_rate))
    return _of_rms_1(np.concatenate(bars).astype(np.float32))


def _note(hertz: float, samples: int, sample_rate: int) -> NDArray[np.float64]:
    times_s = np.arange(samples) / sample_rate
    partials = sum(
        loudness * np.sin(2 * np.pi * hertz * order * times_s)
        for order, loudness in enumerate(HARMONICS, start=1)
    )
    # Plucked: a quick attack, then it dies away.
    envelope = np.minimum(1, times_s / 0.01) * np.exp(-2 * times_s / (samples / sample_rate))
    plucked: NDArray[np.float64] = partials * envelope
    return plucked


def _of_rms_1(waveform: NDArray[np.float32]) -> NDArray[np.float32]:
    level = rms(waveform)
    return waveform / np.float32(level) if level else waveform
