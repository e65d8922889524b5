"""The noisy telephone line."""

import numpy as np
import pytest
from spectra import decibels, power, random

from lab.telephone import amplitude, band_pass, rms, telephone


def test_levels() -> None:
    assert amplitude(-20) == pytest.approx(0.1)
    assert rms(np.full(10, -0.5, np.float32)) == pytest.approx(0.5)
    assert rms(np.zeros(0, np.float32)) == 0


def test_the_band_of_a_telephone() -> None:
    white = random().standard_normal(8_000 * 20).astype(np.float32)
    inside = power(band_pass(white), 8_000, 450, 3250)
    assert inside == pytest.approx(power(white, 8_000, 450, 3250), rel=0.01)
    for low, high in ((0, 200), (3500, 4000)):
        assert decibels(power(band_pass(white), 8_000, low, high) / inside) < -40


def test_the_band_filter_delays_nothing() -> None:
    click = np.zeros(1000, np.float32)
    click[400] = 1
    assert np.abs(band_pass(click)).argmax() == 400


def test_a_line_has_its_noise_and_the_same_seed_gives_the_same() -> None:
    speech = 0.1 * random(2).standard_normal(16_000).astype(np.float32)
    speech[8_000:] = 0
    line = telephone(speech, [(0, 8_000)], random())
    noise = line - band_pass(speech)
    assert 2 * decibels(rms(band_pass(speech)[:8_000]) / rms(noise)) == pytest.approx(15, abs=0.5)
    np.testing.assert_array_equal(line, telephone(speech, [(0, 8_000)], random()))
    assert not np.array_equal(line, telephone(speech, [(0, 8_000)], random(3)))
