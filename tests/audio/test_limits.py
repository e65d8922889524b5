"""The limits of audio: what is just taken, and what is just refused."""

import numpy as np
import pytest
from audio_files import audio_file

from conch.audio.limits import check_duration, check_rate, peak
from conch.audio.recording import file_recording
from conch.wire.errors import AudioError, OptionError


def file_of(num_channels: int, kind: str = "WAV", seconds: float = 0.1) -> bytes:
    samples = np.full((round(16_000 * seconds), num_channels), 0.1, np.float32)
    return audio_file(samples, 16_000, format=kind)


def test_the_longest_audio() -> None:
    check_duration(14_400.0, 14_400.0)
    with pytest.raises(AudioError, match="this server takes at most 14400 s"):
        check_duration(14_400.1, 14_400.0)
    assert next(file_recording(file_of(1, seconds=2.0), 2.0).channels[0]).size
    with pytest.raises(AudioError, match=r"the audio is 2\.1 s long"):
        file_recording(file_of(1, seconds=2.1), 2.0)


def test_the_lowest_and_the_highest_rate() -> None:
    for rate in (4_000, 192_000):
        check_rate(rate, "SAMPLE_RATE")
    for rate in (3_999, 192_001):
        with pytest.raises(AudioError, match=f"takes 4000 to 192000 Hz; sent: {rate}"):
            check_rate(rate, "SAMPLE_RATE")


def test_the_largest_sample() -> None:
    assert peak(np.array([0.5, -10.0], np.float32), "WAV") == 10.0
    with pytest.raises(AudioError, match=r"WAV reaches 10\.01"):
        peak(np.array([0.5, -10.01], np.float32), "WAV")


def test_the_most_channels() -> None:
    assert next(file_recording(file_of(64), 10.0).channels[0]).size == 1_600
    assert len(file_recording(file_of(8), 10.0, "split").channels) >= 1
    with pytest.raises(OptionError, match="splits at most 8 channels; AUDIO has 9"):
        file_recording(file_of(9), 10.0, "split")
    # Ogg Vorbis has up to 255, of which a block would take half a gigabyte.
    for num_channels, kind in ((65, "WAV"), (255, "OGG")):
        with pytest.raises(AudioError, match=f"takes 1 to 64 channels; sent: {num_channels}"):
            file_recording(file_of(num_channels, kind), 10.0)
