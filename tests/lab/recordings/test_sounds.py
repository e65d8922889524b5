from itertools import pairwise

import numpy as np
import pytest
import soxr
from numpy.typing import NDArray
from spectra import decibels, power, random

from lab.recordings.sounds import faded, music, pink_noise, telephone_call
from lab.telephone import band_pass, rms

RATE = 16_000


def speech() -> NDArray[np.float32]:
    """Return noise in bursts: two utterances in four seconds, with all frequencies."""
    waveform = np.zeros(4 * RATE, np.float32)
    waveform[8_000:24_000] = 0.1 * random(7).standard_normal(16_000)
    waveform[40_000:56_000] = 0.05 * random(8).standard_normal(16_000)
    return waveform


SPANS = [(8_000, 24_000), (40_000, 56_000)]


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


def test_a_telephone_has_its_band_and_its_noise() -> None:
    call = telephone_call(speech(), SPANS, random())
    assert len(call) == len(speech()) // 2
    clean = band_pass(soxr.resample(speech(), RATE, 8_000))
    spoken = np.concatenate([clean[start // 2 : end // 2] for start, end in SPANS])
    noise = call - clean
    assert 2 * decibels(rms(spoken) / rms(noise)) == pytest.approx(15, abs=0.5)
    # As loud in the pauses, where nothing else is.
    assert 2 * decibels(rms(spoken) / rms(call[:3_900])) == pytest.approx(15, abs=0.5)
    inside = power(call, 8_000, 450, 3250)
    assert decibels(power(call, 8_000, 0, 200) / inside) < -40
    assert decibels(power(call, 8_000, 3500, 4000) / inside) < -40


def test_a_loud_telephone_is_not_clipped() -> None:
    loud, quiet = (
        telephone_call(8 * speech(), SPANS, random()),
        telephone_call(speech(), SPANS, random()),
    )
    peak = np.abs(quiet).max()
    assert peak < 1
    assert np.abs(loud).max() == pytest.approx(1)
    np.testing.assert_allclose(loud * peak, quiet, atol=1e-4)
