"""hibari's own part: chunks equal the whole, and the sound is that of the package."""

from dataclasses import replace

import numpy as np
import pytest

from conch.component import Row
from conch.families import voices
from conch.families.hibari import SAMPLE_RATE
from conch.families.hibari.components import (
    CHANNELS,
    HibariAcoustic,
    HibariVocoder,
    noise,
    waveform,
)
from conch.families.speech.graphs import VoiceConfig
from conch.synthesis.speaking import Growth
from conch.wire.errors import InvalidRequestError

TEXT = "The quick brown fox jumps over the lazy dog, and then it runs away."
HIBARI = voices()["hibari"]


@pytest.fixture(scope="module")
def package():
    from hibari import Hibari

    return Hibari()


@pytest.fixture(scope="module")
def tokens(package) -> np.ndarray:
    return np.array(package.ids(package.phonemize(TEXT)[0]), np.int32)


@pytest.fixture(scope="module")
def acoustic() -> HibariAcoustic:
    return HibariAcoustic(VoiceConfig(nice=0))


@pytest.fixture(scope="module")
def vocoder() -> HibariVocoder:
    return HibariVocoder(VoiceConfig(nice=0))


def voiced(acoustic: HibariAcoustic, tokens: np.ndarray, speed: float = 1.0):
    row = Row({"tokens": tokens, "speed": np.array([speed], np.float32)})
    return acoustic([row])[0]


@pytest.fixture(scope="module")
def latents(acoustic, tokens) -> np.ndarray:
    return voiced(acoustic, tokens)["latents"]


def sound(vocoder: HibariVocoder, latents: np.ndarray, before: int, after: int, first: int, seed=1):
    row = Row({"latents": latents, "context": np.array([before, after, first])}, {"seed": seed})
    return vocoder([row])[0]["waveform"]


@pytest.mark.parametrize("first", [1, 16, 70])
def test_chunks_equal_the_whole(vocoder, latents, first) -> None:
    whole = sound(vocoder, latents, 0, 0, 0)
    assert len(whole) == 300 * len(latents) and np.abs(whole).max() > 0.1
    around = HIBARI.frames_before, HIBARI.frames_after
    pieces = [
        sound(
            vocoder,
            latents[item.first : item.last],
            item.start - item.first,
            item.last - item.end,
            item.first,
        )
        for item in Growth(first, 90, 3).chunks(len(latents), *around)
    ]
    assert len(pieces) > 2
    np.testing.assert_allclose(np.concatenate(pieces), whole, atol=1e-6)


def test_less_context_is_not_enough(vocoder, latents) -> None:
    whole = sound(vocoder, latents, 0, 0, 0)
    start, end = 60, 80
    for before, after in ((8, 29), (28, 8)):
        part = latents[start - before : end + after]
        found = sound(vocoder, part, before, after, start - before)
        assert np.abs(found - whole[300 * start : 300 * end]).max() > 1e-4


def test_the_signal_is_that_of_the_package(package, latents) -> None:
    from hibari import dsp

    rng = np.random.default_rng(3)
    parts = rng.normal(-2, 1, (5, 601, len(latents))).astype(np.float32)
    parts[2] = -50  # noise has no same numbers
    wanted = dsp.synth(*parts, latents[:, -2], rng)
    spectrum = parts.transpose(2, 0, 1).reshape(len(latents), -1)
    found = waveform(spectrum, latents[:, -2], latents[:, -1], noise(0, len(latents), 1), 0)
    np.testing.assert_allclose(found, wanted, atol=2e-3 * np.abs(wanted).max())


def test_noise_depends_on_the_frame_and_the_seed_alone() -> None:
    all_of_it = noise(0, 100, 4)
    np.testing.assert_array_equal(noise(37, 21, 4), all_of_it[37:58])
    assert not np.array_equal(noise(37, 21, 5), all_of_it[37:58])
    assert abs(np.abs(all_of_it).var() + np.abs(all_of_it).mean() ** 2 - 2) < 0.05


def test_durations_sum_to_the_audio_and_follow_the_speed(acoustic, tokens) -> None:
    lengths = []
    for speed in (0.5, 1.0, 2.0):
        found = voiced(acoustic, tokens, speed)
        assert len(found["durations"]) == len(tokens)
        assert found["durations"].sum() == len(found["latents"])
        lengths.append(len(found["latents"]))
    assert lengths[0] > 1.6 * lengths[1] > 2.4 * lengths[2]
    assert 3 < lengths[1] * 300 / SAMPLE_RATE < 6


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"context": np.array([5, 5, 0])}, "leave at least one of 10; sent: 5, 5, 0"),
        ({"context": np.array([0, 0, -1])}, "sent: 0, 0, -1"),
        ({"latents": np.zeros((10, 7), np.float32)}, r"sent: \[10, 7\]"),
    ],
)
def test_a_stretch_that_cannot_be_spoken_is_refused(vocoder, change, said) -> None:
    inputs = {"latents": np.zeros((10, CHANNELS), np.float32), "context": np.array([1, 1, 0])}
    row = Row({**inputs, **change})
    with pytest.raises(InvalidRequestError, match=said):
        vocoder([replace(row)])


def test_sounds_and_speeds_out_of_range_are_refused(acoustic) -> None:
    for tokens, speed, said in (([], 1.0, "sent: 0"), ([1], 4.5, "sent: 4.5")):
        with pytest.raises(InvalidRequestError, match=said):
            voiced(acoustic, np.array(tokens, np.int32), speed)
