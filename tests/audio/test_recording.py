import io

import numpy as np
import pytest
import soundfile

from conch.audio import AudioBlocks, file_recording, waveform_recording
from conch.audio.blocks import BLOCK_SAMPLES
from conch.errors import AudioError

HOUR = 3600.0


def tone(seconds: float, rate: int, hz: float = 440.0) -> np.ndarray:
    return (0.5 * np.sin(2 * np.pi * hz * np.arange(int(seconds * rate)) / rate)).astype(np.float32)


def encoded(waveform: np.ndarray, rate: int, kind: str = "WAV") -> bytes:
    buffer = io.BytesIO()
    soundfile.write(buffer, waveform, rate, format=kind)
    return buffer.getvalue()


def file_blocks(data: bytes, max_audio_s: float = HOUR) -> AudioBlocks:
    """The only channel of a file: the mix."""
    (blocks,) = file_recording(data, max_audio_s).channels.values()
    return blocks


def waveform_blocks(waveform: np.ndarray, rate: int, max_audio_s: float = HOUR) -> AudioBlocks:
    (blocks,) = waveform_recording(waveform, rate, max_audio_s).channels.values()
    return blocks


def whole(blocks: AudioBlocks) -> np.ndarray:
    return np.concatenate(list(blocks))


def test_a_waveform_comes_back_in_blocks_unchanged():
    waveform = tone(80, 16_000)
    blocks = waveform_blocks(waveform, 16_000, HOUR)
    assert blocks.are_at_hand
    pieces = list(blocks)
    assert [len(piece) for piece in pieces[:-1]] == [BLOCK_SAMPLES] * (len(pieces) - 1)
    assert blocks.num_samples == len(waveform)
    np.testing.assert_array_equal(np.concatenate(pieces), waveform)


@pytest.mark.parametrize("rate", [8_000, 22_050, 44_100, 48_000])
def test_other_rates_are_resampled(rate):
    blocks = waveform_blocks(tone(40, rate), rate, HOUR)
    assert not blocks.are_at_hand
    resampled = whole(blocks)
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


@pytest.mark.parametrize("rate", [1, 100, 400_000, 2**31 - 1])
def test_a_file_of_an_absurd_rate_is_refused(rate):
    message = f"the sample rate of AUDIO takes 4000 to 192000 Hz; sent: {rate}"
    with pytest.raises(AudioError, match=message):
        file_blocks(encoded(tone(1, 16_000), rate), HOUR)


@pytest.fixture(scope="module")
def mp3_without_header() -> bytes:
    """Twelve seconds that do not tell their length; guessed by the silent start it is longer."""
    noise = np.random.default_rng(1).normal(0, 0.2, 10 * 44_100).astype(np.float32)
    waveform = np.concatenate([np.zeros(2 * 44_100, np.float32), noise])
    buffer = io.BytesIO()
    options = {"bitrate_mode": "VARIABLE", "compression_level": 0.1}
    soundfile.write(buffer, waveform, 44_100, format="MP3", **options)
    data = buffer.getvalue()
    assert b"Xing" in data[:200]
    data = data[data.index(b"\xff\xfb", 4) :]
    guess = soundfile.info(io.BytesIO(data)).duration
    assert guess > 20
    return data


def test_an_mp3_whose_length_is_a_guess_is_read_to_its_end(mp3_without_header):
    blocks = file_blocks(mp3_without_header, 15)
    assert abs(len(whole(blocks)) / 16_000 - 12) < 0.2


def test_an_mp3_whose_length_is_a_guess_is_refused_where_it_is_too_long(mp3_without_header):
    with pytest.raises(AudioError, match="this server takes at most 5 s"):
        whole(file_blocks(mp3_without_header, 5))
