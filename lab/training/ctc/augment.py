"""Augmentation: change utterances as a microphone and a room might.

All functions take a `numpy.random.Generator`, so that a seed decides everything.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.signal
import soxr
from numpy.typing import NDArray

from conch.component import SAMPLE_RATE, FloatArray

BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class AugmentConfig:
    speeds: tuple[float, ...] = (0.9, 1.0, 1.1)
    """Speeds, drawn with equal chance; the pitch changes too."""
    reverb_chance: float = 0.1
    noise_chance: float = 0.2
    """Chance of coloured noise."""
    babble_chance: float = 0.05
    """Chance of mixed-in utterances."""
    snr_db: tuple[float, float] = (8.0, 30.0)
    """Range of the speech-to-noise ratio, drawn evenly."""
    gain_db: tuple[float, float] = (-12.0, 6.0)
    freq_masks: int = 2
    max_freq_mask: int = 14
    """Mel bands of the widest mask."""
    time_masks_per_s: float = 0.2
    max_time_mask: int = 20
    """Frames (10 ms) of the longest mask."""


MASKS = AugmentConfig(
    speeds=(1.0,), reverb_chance=0.0, noise_chance=0.0, babble_chance=0.0, gain_db=(0.0, 0.0)
)
"""Masks of the features alone: for more epochs of a model that begins to overfit."""
SPEEDS = replace(MASKS, speeds=(0.9, 1.0, 1.1), max_freq_mask=20, time_masks_per_s=0.3)
"""Wider masks and three speeds: for a round after that."""
LIGHT = AugmentConfig()
"""Augmentation for trainings of a few epochs."""


def augmented(
    waveform: FloatArray,
    other: Callable[[], FloatArray],
    config: AugmentConfig,
    rng: np.random.Generator,
) -> FloatArray:
    speed = rng.choice(config.speeds)
    if speed != 1.0:
        waveform = soxr.resample(waveform, SAMPLE_RATE * speed, SAMPLE_RATE, quality="LQ")
    if rng.random() < config.reverb_chance:
        waveform = reverberated(waveform, rng)
    drawn = rng.random()
    if drawn < config.noise_chance:
        waveform = mixed(waveform, coloured_noise(len(waveform), rng), config, rng)
    elif drawn < config.noise_chance + config.babble_chance:
        babble = np.sum(
            [looped(other(), len(waveform), rng) for _ in range(rng.integers(2, 6))], axis=0
        )
        waveform = mixed(waveform, babble, config, rng)
    gain = 10.0 ** (rng.uniform(*config.gain_db) / 20.0)
    peak = float(np.abs(waveform).max(initial=1e-6))
    loud: FloatArray = (waveform * min(gain, 1.0 / peak)).astype(np.float32)  # never clipped
    return loud


def mixed(
    speech: FloatArray, noise: FloatArray, config: AugmentConfig, rng: np.random.Generator
) -> FloatArray:
    """Return speech with noise of its length at a ratio drawn from the range."""
    speech_power = float(np.mean(speech**2))
    noise_power = float(np.mean(noise**2)) + 1e-12
    snr = 10.0 ** (rng.uniform(*config.snr_db) / 10.0)
    mixture: FloatArray = speech + noise * np.float32(np.sqrt(speech_power / snr / noise_power))
    return mixture


def coloured_noise(length: int, rng: np.random.Generator) -> FloatArray:
    """Return noise whose power falls with frequency: from white to brown."""
    size = scipy.fft.next_fast_len(max(length, 2), real=True)
    spectrum = np.fft.rfft(rng.standard_normal(size, dtype=np.float32))
    spectrum *= (np.arange(len(spectrum)) + 20.0) ** (-rng.uniform(0.0, 2.0) / 2.0)
    return np.fft.irfft(spectrum, size)[:length].astype(np.float32)


def reverberated(waveform: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Return a waveform with reverberation: the direct sound, then decaying noise.

    The time to 60 dB less is 0.15 to 0.6 s, the direct sound is 0 to 12 dB louder than the rest.
    """
    decay_s = rng.uniform(0.15, 0.6)
    times = np.arange(int(decay_s * SAMPLE_RATE)) / SAMPLE_RATE
    tail = rng.standard_normal(len(times)) * 10.0 ** (-3.0 * times / decay_s)
    tail *= np.sqrt(10.0 ** (-rng.uniform(0.0, 12.0) / 10.0) / np.sum(tail**2))
    tail[0] += 1.0
    reverberated = scipy.signal.oaconvolve(waveform, tail.astype(np.float32))
    cut: FloatArray = reverberated[: len(waveform)].astype(np.float32)
    return cut


def looped(waveform: FloatArray, length: int, rng: np.random.Generator) -> FloatArray:
    """Return a waveform of another length: a part of it, or it over and over."""
    start = int(rng.integers(len(waveform)))
    return np.resize(np.roll(waveform, -start), length)


def drawn_masks(
    lens: Sequence[int], n_mels: int, config: AugmentConfig, rng: np.random.Generator
) -> tuple[BoolArray, BoolArray]:
    """Return which mel bands `[B, n_mels]` and frames `[B, longest]` are hidden.

    SpecAugment (https://arxiv.org/abs/1904.08779); a span hides a quarter of its utterance at most.
    """
    bands = np.zeros((len(lens), n_mels), np.bool_)
    spans = np.zeros((len(lens), max(lens)), np.bool_)
    for row, num_frames in enumerate(lens):
        for _ in range(config.freq_masks):
            width = int(rng.integers(config.max_freq_mask + 1))
            start = int(rng.integers(n_mels - width + 1))
            bands[row, start : start + width] = True
        for _ in range(rng.poisson(config.time_masks_per_s * num_frames / 100)):
            width = min(int(rng.integers(config.max_time_mask + 1)), num_frames // 4)
            start = int(rng.integers(num_frames - width + 1))
            spans[row, start : start + width] = True
    return bands, spans
