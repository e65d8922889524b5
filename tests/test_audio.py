import io

import numpy as np
import pytest
import soundfile

from conch.audio import BLOCK_SAMPLES, file_blocks, waveform_blocks
from conch.errors import AudioError

HOUR = 3600.0


def tone(seconds: float, rate: int, hz: float = 440.0) -> np.ndarray:
    return (0.5 * np.sin(2 * np.pi * hz * np.arange(int(seconds * rate)) / rate)).astype(np.float32)


def encoded(waveform: np.ndarray, rate: int, kind: str = "WAV") -> bytes:
    buffer = io.BytesIO()
    soundfile.write(buffer, waveform, rate, format=kind)
    return buffer.getvalue()


def whole(blocks) -> np.ndarray:
    return np.concatenate(list(blocks))


def test_a_waveform_comes_back_in_blocks_unchanged():
    waveform = tone(80, 16_000)
    blocks = waveform_blocks(waveform, 16_000, HOUR)
    pieces = list(blocks)
    assert [len(piece) for piece in pieces[:-1]] == [BLOCK_SAMPLES] * (len(pieces) - 1)
    assert blocks.num_samples == len(waveform)
    np.testing.assert_array_equal(np.concatenate(pieces), waveform)


@pytest.mark.parametrize("rate", [8_000, 22_050, 44_100, 48_000])
def test_other_rates_are_resampled(rate):
    resampled = whole(waveform_blocks(tone(40, rate), rate, HOUR))
    assert abs(len(resampled) - 40 * 16_000) <= 2
    middle = slice(1000, -1000)
    np.testing.assert_allclose(
        resampled[middle], tone(41, 16_000)[: len(resampled)][middle], atol=2e-3
    )


@pytest.mark.parametrize(("kind", "tolerance"), [("WAV", 1e-4), ("FLAC", 1e-4), ("OGG", 0.05)])
def test_files_of_several_kinds_and_channels_become_mono(kind, tolerance):
    waveform = tone(2, 16_000)
    stereo = np.stack([waveform, np.zeros_like(waveform)], axis=1)
    decoded = whole(file_blocks(encoded(stereo, 16_000, kind), HOUR))
    np.testing.assert_allclose(decoded, waveform / 2, atol=tolerance)


@pytest.mark.parametrize(
    ("waveform", "rate", "message"),
    [
        (np.zeros(0, np.float32), 16_000, "WAV is empty"),
        (np.array([0, np.nan], np.float32), 16_000, "WAV has samples that are NaN or infinite"),
        (np.array([0, -np.inf], np.float32), 16_000, "WAV has samples that are NaN or infinite"),
        (np.array([0, 20000], np.float32), 16_000, "WAV reaches 20000; samples are in [-1, 1]"),
        (tone(1, 16_000), 0, "SAMPLE_RATE takes 4000 to 192000 Hz; sent: 0"),
        (tone(1, 16_000), -16_000, "SAMPLE_RATE takes 4000 to 192000 Hz; sent: -16000"),
        (tone(1, 16_000), 10**9, "SAMPLE_RATE takes 4000 to 192000 Hz; sent: 1000000000"),
        (tone(11, 16_000), 16_000, "the audio is 11.0 s long; this server takes at most 10 s"),
    ],
)
def test_a_bad_waveform_says_what_is_wrong(waveform, rate, message):
    with pytest.raises(AudioError) as error:
        list(waveform_blocks(waveform, rate, 10.0))
    assert str(error.value).startswith(message)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "AUDIO cannot be decoded (0 bytes)"),
        (b"just a text file\n" * 100, "AUDIO cannot be decoded (1700 bytes)"),
        (encoded(np.zeros(0, np.float32), 16_000), "AUDIO holds no samples"),
        (encoded(tone(11, 8_000), 8_000), "the audio is 11.0 s long"),
        (encoded(tone(5, 16_000), 16_000, "FLAC")[:20_000], "AUDIO is "),
    ],
    ids=["empty", "text", "no samples", "too long", "truncated flac"],
)
def test_a_bad_file_says_what_is_wrong(data, message):
    with pytest.raises(AudioError) as error:
        list(file_blocks(data, 10.0))
    assert str(error.value).startswith(message)
