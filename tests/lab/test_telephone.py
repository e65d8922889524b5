"""The noisy telephone line."""

import numpy as np
import pytest
import soxr
from numpy.typing import NDArray
from spectra import decibels, power, random

from lab.telephone import amplitude, band_pass, rms, telephone_call
from lab.waveforms import coded

RATE = 16_000


def speech() -> NDArray[np.float32]:
    """Return noise in bursts: two utterances in four seconds, with all frequencies."""
    waveform = np.zeros(4 * RATE, np.float32)
    waveform[8_000:24_000] = 0.1 * random(7).standard_normal(16_000)
    waveform[40_000:56_000] = 0.05 * random(8).standard_normal(16_000)
    return waveform


SPANS = [(8_000, 24_000), (40_000, 56_000)]


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


def test_the_band_filter_keeps_the_length_of_what_is_shorter_than_itself() -> None:
    assert len(band_pass(np.ones(50, np.float32))) == 50


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


def test_the_same_seed_gives_the_same_noise() -> None:
    call = telephone_call(speech(), SPANS, random())
    np.testing.assert_array_equal(call, telephone_call(speech(), SPANS, random()))
    assert not np.array_equal(call, telephone_call(speech(), SPANS, random(3)))


def test_g711_keeps_the_level_and_is_coarse() -> None:
    waveform = np.linspace(-1, 1, 1001, dtype=np.float32)
    found = coded(waveform, 8_000, "ULAW")
    assert len(np.unique(found)) <= 255
    np.testing.assert_allclose(found, waveform, atol=0.03)
