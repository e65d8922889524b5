"""How high a voice is: tones, noise, and speech by a model whose pitch is known."""

import librosa
import numpy as np
import pytest

from conch.component.pitch import median_pitch


def voice(hertz: float, seconds: float = 1.0) -> np.ndarray:
    """Return harmonics, weaker ones further up, of a pitch that moves by 5 %."""
    time = np.arange(round(16_000 * seconds)) / 16_000
    moving = hertz * (1 + 0.05 * np.sin(2 * np.pi * 3 * time))
    phase = 2 * np.pi * np.cumsum(moving) / 16_000
    sound = np.sum([np.sin(number * phase) / number for number in range(1, 8)], axis=0)
    return (0.1 * sound).astype(np.float32)


@pytest.mark.parametrize("hertz", [70, 98, 130, 181, 260, 350])
def test_the_pitch_of_a_voice(hertz: float) -> None:
    assert median_pitch(voice(hertz)) == pytest.approx(hertz, rel=0.04)


@pytest.mark.parametrize("hertz", [90, 140, 230])
def test_it_is_that_of_librosa(hertz: float) -> None:
    rng = np.random.default_rng(3)
    noise = rng.normal(0, 0.02, 16_000).astype(np.float32)
    sound = np.asarray(voice(hertz) + noise)
    other = np.median(librosa.yin(sound, fmin=60, fmax=400, sr=16_000))
    assert median_pitch(sound) == pytest.approx(other, rel=0.04)


def test_noise_silence_and_clicks_have_none() -> None:
    rng = np.random.default_rng(4)
    assert median_pitch(np.zeros(16_000, np.float32)) == 0
    assert median_pitch(rng.normal(0, 0.1, 16_000).astype(np.float32)) == 0
    assert median_pitch(voice(100, seconds=0.05)) == 0
    assert median_pitch(np.zeros(0, np.float32)) == 0


def test_pauses_change_nothing() -> None:
    pause = np.zeros(8_000, np.float32)
    sound = np.concatenate([pause, voice(120), pause, voice(120), pause])
    assert median_pitch(sound) == pytest.approx(120, rel=0.04)
