"""Features held against two independent implementations."""

import numpy as np
import pytest
import scipy.signal
import soundfile

from conch.cli.demo import SPEECH
from conch.component.features import HISTORY, log_mel_spectrogram, mel_filters, streaming_log_mel


@pytest.fixture(scope="module")
def speech() -> np.ndarray:
    return soundfile.read(SPEECH, dtype="float32")[0]


LENGTHS = [
    # samples, frames of the window: longer than the audio, just as long, shorter
    (117_200, 3000),
    (117_200, 1500),
    (117_200, 732),
    (80_000, 200),
    # too short to fill one FFT
    (1, 1500),
    (250, 1500),
    (401, 3),
]


def padded(waveform: np.ndarray, num_frames: int) -> np.ndarray:
    """The part that `num_frames` frames see, then silence."""
    seen = waveform[: (num_frames - 1) * 160 + 200]
    return np.pad(seen, (0, num_frames * 160 + 400 - len(seen)))


def power_of(waveform: np.ndarray) -> np.ndarray:
    """Return the power spectrum by scipy; librosa compiles for a quarter of a minute first."""
    _, _, spectrum = scipy.signal.stft(
        waveform.astype(np.float64), nperseg=400, noverlap=240, boundary=None, padded=False
    )
    return np.abs(spectrum * scipy.signal.get_window("hann", 400).sum()) ** 2


@pytest.mark.parametrize(("samples", "num_frames"), LENGTHS)
def test_equals_faster_whisper(speech, samples, num_frames):
    reference = pytest.importorskip("faster_whisper.feature_extractor").FeatureExtractor()
    waveform = speech[:samples]
    expected = reference(padded(waveform, num_frames), padding=0)[:, :num_frames]
    found = log_mel_spectrogram(waveform, num_frames)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize(("samples", "num_frames"), LENGTHS)
def test_equals_scipys_spectrum_through_librosas_filters(speech, samples, num_frames):
    librosa = pytest.importorskip("librosa")
    waveform = speech[:samples]
    centred = np.pad(padded(waveform, num_frames), 200, mode="reflect")
    power = librosa.filters.mel(sr=16_000, n_fft=400, n_mels=80) @ power_of(centred)[:, :num_frames]
    expected = np.log10(np.maximum(power, 1e-10))
    expected = (np.maximum(expected, expected.max() - 8) + 4) / 4
    found = log_mel_spectrogram(waveform, num_frames)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize("n_mels", [80, 128])
def test_filters_equal_librosa(n_mels):
    librosa = pytest.importorskip("librosa")
    expected = librosa.filters.mel(sr=16_000, n_fft=400, n_mels=n_mels)
    np.testing.assert_allclose(mel_filters(n_mels), expected, rtol=0, atol=1e-7)


def test_silence_is_flat():
    found = log_mel_spectrogram(np.zeros(16_000, np.float32), 300)
    np.testing.assert_allclose(found, np.full((80, 300), (-10 + 4) / 4), atol=1e-6)


@pytest.mark.parametrize("sizes", [[1] * 50, [2, 5, 1, 32, 10], [8, 8, 8, 8, 8, 8, 2]])
def test_streaming_chunks_equal_the_whole(speech, sizes):
    padded = np.pad(speech, (HISTORY, 0))
    whole = streaming_log_mel(padded)
    assert len(whole) == len(speech) // 160
    start = 0
    for size in sizes:
        chunk = padded[160 * start : 160 * (start + size) + HISTORY]
        np.testing.assert_allclose(
            streaming_log_mel(chunk), whole[start : start + size], rtol=0, atol=1e-5
        )
        start += size


def test_streaming_equals_scipys_spectrum_through_librosas_filters(speech):
    librosa = pytest.importorskip("librosa")
    mel = librosa.filters.mel(sr=16_000, n_fft=400, n_mels=80)
    power = mel @ power_of(np.pad(speech, (240, 0)))
    expected = (np.log10(np.maximum(power, 1e-7)) + 4) / 4
    found = streaming_log_mel(np.pad(speech, (HISTORY, 0)))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected.T, rtol=0, atol=1e-4)


def test_streaming_needs_no_more_than_its_own_samples(speech):
    assert streaming_log_mel(np.zeros(HISTORY + 159, np.float32)).shape == (0, 80)
    assert streaming_log_mel(np.zeros(HISTORY + 160, np.float32)).shape == (1, 80)
    changed = np.pad(speech, (HISTORY, 0))
    changed[HISTORY + 1600 :] = 0  # after the tenth frame
    whole = streaming_log_mel(np.pad(speech, (HISTORY, 0)))
    np.testing.assert_array_equal(streaming_log_mel(changed)[:10], whole[:10])
