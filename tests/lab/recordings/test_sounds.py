from itertools import pairwise

import numpy as np
import pytest
from spectra import decibels, power, random

from lab.recordings.sounds import faded, music, pink_noise
from lab.telephone import rms

RATE = 16_000


def test_pink_noise_falls_by_three_decibels_an_octave() -> None:
    noise = pink_noise(20 * RATE, random())
    assert rms(noise) == pytest.approx(1, abs=1e-3)
    octaves = [power(noise, RATE, low, 2 * low) for low in (100, 200, 400, 800, 1600, 3200)]
    for lower, higher in pairwise(octaves):
        assert decibels(lower / higher) == pytest.approx(3, abs=0.7)


@pytest.mark.parametrize("samples", [0, 1, 2, 3])
def test_no_noise_is_too_short(samples: int) -> None:
    assert len(faded(pink_noise(max(samples, 1), random()), RATE)) == max(samples, 1)
    assert len(faded(np.ones(samples, np.float32), RATE)) == samples


def test_fades_begin_and_end_quietly() -> None:
    waveform = faded(np.ones(RATE, np.float32), RATE)
    assert waveform[0] == 0
    assert waveform[-1] < 0.01
    assert (waveform[400:-400] == 1).all()


def test_music_goes_on_where_it_was() -> None:
    whole = music(0, 40 * RATE, RATE)
    assert rms(whole) == pytest.approx(1, abs=0.01)
    np.testing.assert_array_equal(music(12_345, 54_321, RATE), whole[12_345:54_321])
    # Tones: a few frequencies have nearly all of the power.
    spectrum = np.sort(np.abs(np.fft.rfft(whole)) ** 2)[::-1]
    assert spectrum[: len(spectrum) // 50].sum() > 0.95 * spectrum.sum()
