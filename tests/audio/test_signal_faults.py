from pathlib import Path

import numpy as np
import pytest
import soundfile
import soxr

from conch.audio.recording import SignalFaults, waveform_recording
from conch.wire.errors import AudioError

DATA = Path(__file__).parents[1] / "data"
RATE = 16_000


@pytest.fixture(scope="module")
def speech() -> np.ndarray:
    return soundfile.read(DATA / "kokoro_1_01119.ogg", dtype="float32")[0]


def found(*channels: np.ndarray, rate: int = RATE) -> list[str]:
    faults = SignalFaults("AUDIO", "the audio", rate)
    whole = np.stack(channels, axis=1).astype(np.float32)
    for block in np.array_split(whole, 3):
        faults.mixed(block)
    return faults.warnings()


@pytest.mark.parametrize("path", sorted(DATA.glob("*.ogg")), ids=lambda path: path.stem)
def test_nothing_is_wrong_with_clean_speech_at_any_usual_level(path):
    waveform = soundfile.read(path, dtype="float32")[0]
    for level in (1.0, 0.5, 0.05):
        waveform = waveform * level / np.abs(waveform).max()
        assert found(waveform) == []
        assert found(waveform, np.roll(waveform, 8)) == []
        assert found(waveform, np.zeros_like(waveform)) == []


def test_no_samples_no_faults():
    assert SignalFaults("AUDIO", "the audio", RATE).warnings() == []


def test_clipping(speech):
    loud = np.clip(speech * 4, -1, 1)
    share = np.mean(np.abs(loud) >= 0.99)
    assert found(loud) == [f"the audio is clipped: {share:.1%} of the samples are at full scale"]
    assert found(loud, loud) == found(loud)


@pytest.mark.parametrize("offset", [0.03, -0.3])
def test_an_offset(speech, offset):
    mean = np.mean(speech) + offset
    assert found(speech + offset) == [f"the audio has a DC offset of {mean:.2f} of full scale"]


def test_a_low_level(speech):
    quiet = speech * 0.005 / np.abs(speech).max()
    assert found(quiet) == [
        "the audio is very quiet: its loudest sample is at -46 dB of full scale"
    ]


def test_silence():
    assert found(np.zeros(RATE)) == ["the audio is silent: every sample is 0"]


def test_a_low_sample_rate(speech):
    assert found(soxr.resample(speech, RATE, 8_000), rate=8_000) == []
    (warning,) = found(soxr.resample(speech, RATE, 4_000), rate=4_000)
    assert warning.startswith("the audio is sampled at 4000 Hz: frequencies above 2000 Hz are")


def test_channels_that_cancel_each_other_are_not_mixed(speech):
    faults = SignalFaults("AUDIO", "the audio", RATE)
    mono = faults.mixed(np.stack([0.9 * speech, -speech], axis=1))
    np.testing.assert_allclose(mono, -speech)
    (warning,) = faults.warnings()
    seconds = len(speech) / RATE
    assert warning.startswith(f"the channels cancel each other for {seconds:.1f} s (opposite phase")


def test_one_voice_in_many_channels_does_not_cancel(speech):
    silent = [np.zeros_like(speech)] * 15
    assert found(speech, *silent) == []


def test_the_mix_is_the_mean(speech):
    other = np.roll(speech, 1000)
    mono = SignalFaults("AUDIO", "the audio", RATE).mixed(np.stack([speech, other], axis=1))
    np.testing.assert_allclose(mono, (speech + other) / 2, atol=1e-7)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_samples_that_are_no_numbers_are_an_error(speech, value):
    spoilt = np.stack([speech, speech], axis=1)
    spoilt[1000, 1] = value
    with pytest.raises(AudioError, match="AUDIO has samples that are NaN or infinite"):
        SignalFaults("AUDIO", "the audio", RATE).mixed(spoilt)


def test_a_waveforms_faults_are_known_when_it_is_read(speech):
    recording = waveform_recording(speech + np.float32(0.1), RATE, 3600.0)
    assert recording.warnings == ()
    list(recording.channels[0])
    assert recording.warnings == ("the audio has a DC offset of 0.10 of full scale",)
