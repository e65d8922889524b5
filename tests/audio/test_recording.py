import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import soxr
from audio_files import audio_file

from conch.audio.blocks import BLOCK_SAMPLES, AudioBlocks
from conch.audio.recording import (
    GUESSED_BYTES_PER_S,
    Channels,
    SignalFaults,
    as_floats,
    file_recording,
    tensor_of,
    waveform_recording,
)
from conch.wire.errors import AudioError, OptionError

DATA = Path(__file__).parents[1] / "data"
RATE = 16_000
HOUR = 3600.0


def tone(seconds: float, rate: int, hz: float = 440.0) -> np.ndarray:
    return (0.5 * np.sin(2 * np.pi * hz * np.arange(int(seconds * rate)) / rate)).astype(np.float32)


def encoded(
    waveform: np.ndarray, rate: int, kind: str = "WAV", subtype: str | None = None
) -> bytes:
    return audio_file(waveform, rate, format=kind, subtype=subtype)


def file_blocks(data: bytes, max_audio_s: float = HOUR) -> AudioBlocks:
    """Return the blocks of a file's only channel, the mix."""
    (blocks,) = file_recording(data, max_audio_s).channels.values()
    return blocks


def waveform_blocks(waveform: np.ndarray, rate: int, max_audio_s: float = HOUR) -> AudioBlocks:
    (blocks,) = waveform_recording(waveform, rate, max_audio_s).channels.values()
    return blocks


@pytest.mark.parametrize("kind", ["WAV", "FLAC", "OGG"])
def test_the_length_is_known_before_anything_is_read(kind):
    recording = file_recording(encoded(tone(3.0, 8000), 8000, kind), HOUR)
    assert recording.length_s == pytest.approx(3.0)
    assert recording.duration == 0
    assert waveform_recording(tone(2.5, 8000), 8000, HOUR).length_s == 2.5


def test_a_length_that_no_header_tells_is_guessed_from_the_bytes():
    data = encoded(tone(30.0, 16_000), 16_000, "MP3")
    start = data.index(b"Xing") if b"Xing" in data else data.index(b"Info")
    unstated = data[:start] + b"none" + data[start + 4 :]
    assert file_recording(unstated, HOUR).length_s == len(data) / GUESSED_BYTES_PER_S
    assert file_recording(unstated, 1.5).length_s == 1.5


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
    # FFmpeg counts the first packet of Vorbis, which has no samples, at the end.
    assert len(waveform) - len(decoded) == (256 if kind == "OGG" else 0)
    np.testing.assert_allclose(decoded, waveform[: len(decoded)] / 2, atol=tolerance)


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
        (encoded(np.full((800, 65), 0.1, np.float32), 16_000), "AUDIO takes 1 to 64 channels; se"),
    ],
    ids=["empty", "text", "no samples", "too long", "too many channels"],
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
    """Return twelve seconds without a length; guessed from the silent start it is longer."""
    noise = np.random.default_rng(1).normal(0, 0.2, 10 * 44_100).astype(np.float32)
    waveform = np.concatenate([np.zeros(2 * 44_100, np.float32), noise])
    options: dict[str, Any] = {"bitrate_mode": "VARIABLE", "compression_level": 0.1}
    data = audio_file(waveform, 44_100, format="MP3", **options)
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


@pytest.fixture(scope="module")
def speech() -> np.ndarray:
    return soundfile.read(DATA / "kokoro_1_01119.ogg", dtype="float32")[0]


def read(data: bytes, channels: Channels = "mix") -> tuple[dict[int, np.ndarray], tuple[str, ...]]:
    recording = file_recording(data, HOUR, channels)
    waveforms = {number: whole(blocks) for number, blocks in recording.channels.items()}
    return waveforms, recording.warnings


@pytest.mark.parametrize(
    ("kind", "subtype", "rate", "tolerance"),
    [
        ("WAV", "PCM_24", 16_000, 1e-4),
        ("WAV", "PCM_32", 16_000, 1e-4),
        ("WAV", "FLOAT", 16_000, 1e-6),
        ("WAV", "DOUBLE", 16_000, 1e-6),
        ("WAV", "ULAW", 16_000, 0.03),
        ("WAV", "ALAW", 16_000, 0.03),
        ("FLAC", "PCM_24", 44_100, 0.03),
        ("AIFF", "PCM_16", 192_000, 0.03),
        ("RF64", "PCM_16", 48_000, 0.03),
    ],
)
def test_samples_of_every_width_and_rate(speech, kind, subtype, rate, tolerance):
    waveform = soxr.resample(speech, 16_000, rate) if rate != 16_000 else speech
    result, warnings = read(encoded(waveform, rate, kind, subtype))
    assert warnings == ()
    assert abs(len(result[0]) - len(speech)) <= 2
    middle = slice(1000, len(speech) - 1000)
    np.testing.assert_allclose(result[0][middle], speech[middle], atol=tolerance)


@pytest.mark.parametrize("kind", ["WAV", "AIFF", "AU", "W64", "RF64", "FLAC", "OGG", "MP3", "CAF"])
def test_half_a_file_is_read_as_far_as_it_goes(speech, kind):
    data = encoded(speech, 16_000, kind)
    assert read(data)[1] == ()
    result, warnings = read(data[: len(data) // 2])
    assert 0.4 < len(result[0]) / len(speech) < 0.6
    (warning,) = warnings
    seconds = f"{len(result[0]) / 16_000:.1f}"
    if kind == "WAV":
        assert len(result[0]) == pytest.approx(len(speech) / 2, abs=50)
        assert seconds == "5.4"
    if kind == "OGG":
        assert warning == f"the file breaks off after {seconds} s: it may be cut off"
    else:
        told = 10.8 if kind == "CAF" else 10.9
        expected = f"the file is cut off: it has {seconds} of the {told} s that its header says"
        assert warning == expected


def test_behind_damage_a_flac_is_read_on(speech):
    data = bytearray(encoded(speech, 16_000, "FLAC"))
    middle = len(data) // 2
    data[middle : middle + 200] = np.random.default_rng(0).bytes(200)
    result, warnings = read(bytes(data))
    assert len(result[0]) > 0.95 * len(speech)
    np.testing.assert_allclose(result[0][:48_000], speech[:48_000], atol=1e-4)
    np.testing.assert_allclose(result[0][-16_000:], speech[-16_000:], atol=1e-4)
    assert len(warnings) == 1
    assert warnings[0].startswith("the file is damaged: ")


@pytest.mark.parametrize("size", [None, 0x7FFFFFFF, 0xFFFFFFFF])
def test_a_length_that_is_left_open_is_no_fault(speech, size):
    data = encoded(speech, 16_000)
    at = data.index(b"data") + 4
    if size is None:  # a recording that was not closed
        data = data[:at] + bytes(4) + data[at + 4 :]
    else:
        claimed = size.to_bytes(4, "little")
        data = data[:4] + claimed + data[8:at] + claimed + data[at + 4 :]
    result, warnings = read(data)
    np.testing.assert_allclose(result[0], speech, atol=1e-4)
    assert warnings == ()


@pytest.mark.parametrize("kind", ["WAV", "FLAC"])
def test_a_call_is_split_into_its_channels(speech, kind):
    other = np.roll(speech, 40_000) / 2
    call = encoded(np.stack([speech, other], axis=1), 16_000, kind)
    result, warnings = read(call, "split")
    assert warnings == ()
    assert list(result) == [1, 2]
    np.testing.assert_allclose(result[1], speech, atol=1e-4)
    np.testing.assert_allclose(result[2], other, atol=1e-4)
    (second,) = read(call, 2)[0].items()
    assert second[0] == 2
    np.testing.assert_array_equal(second[1], result[2])


def test_channels_that_are_the_same_are_recognised_once(speech):
    result, warnings = read(encoded(np.stack([speech] * 2, axis=1), 16_000), "split")
    assert list(result) == [1]
    np.testing.assert_allclose(result[1], speech, atol=1e-4)
    assert warnings == ("the 2 channels are the same: they are transcribed once, as channel 1",)


def test_channels_that_differ_at_their_end_are_not_the_same():
    one = tone(60, 8_000)
    other = one.copy()
    other[-8_000:] = 0
    result, _ = read(encoded(np.stack([one, other], axis=1), 8_000), "split")
    assert list(result) == [1, 2]


def test_faults_name_their_channel(speech):
    stereo = np.stack([speech, np.zeros_like(speech)], axis=1)
    assert read(encoded(stereo, 16_000), "split")[1] == ("channel 2 is silent: every sample is 0",)
    assert read(encoded(stereo, 16_000))[1] == ()


def test_a_fault_of_the_file_is_reported_once(speech):
    data = encoded(np.stack([speech, -speech / 2], axis=1), 16_000)
    _, warnings = read(data[: len(data) // 2], "split")
    assert len(warnings) == 1
    assert warnings[0].startswith("the file is cut off: ")


def test_one_channel_can_be_split():
    assert list(read(encoded(tone(1, 16_000), 16_000), "split")[0]) == [1]
    assert list(waveform_recording(tone(1, 16_000), 16_000, HOUR, "split").channels) == [1]


@pytest.mark.parametrize(
    ("num_channels", "channels", "message"),
    [
        (2, 3, "option 'channels' takes a channel of the audio; AUDIO has 2 channels; sent: 3"),
        (1, 2, "option 'channels' takes a channel of the audio; AUDIO has 1 channel; sent: 2"),
        (9, "split", "option 'channels' splits at most 8 channels; AUDIO has 9: choose one"),
    ],
)
def test_channels_that_are_not_there(num_channels, channels, message):
    data = encoded(np.full((1000, num_channels), 0.1, np.float32), 16_000)
    with pytest.raises(OptionError) as error:
        file_recording(data, HOUR, channels)
    assert str(error.value).startswith(message)


def test_a_waveform_has_one_channel():
    with pytest.raises(OptionError, match="WAV has 1 channel; sent: 2"):
        waveform_recording(tone(1, 16_000), 16_000, HOUR, 2)


EVERY = np.arange(-32_768, 32_768, dtype=np.int16)


def test_every_16_bit_sample_keeps_its_value():
    floats = as_floats(EVERY)
    assert floats.dtype == np.float32
    assert (floats[0], floats[32_768]) == (-1.0, 0.0)
    assert [int(value) for value in floats.astype(np.float64) * 32_768] == EVERY.tolist()
    assert as_floats(EVERY[:0]).shape == (0,)


def test_floats_stay_the_same_array():
    waveform = np.zeros(5, np.float32)
    assert as_floats(waveform) is waveform
    assert [tensor_of(samples) for samples in (waveform, EVERY)] == ["WAV", "PCM16"]


def test_a_recording_of_16_bit_samples_becomes_floats_block_by_block():
    samples = np.resize(EVERY, BLOCK_SAMPLES + 7)
    (blocks,) = waveform_recording(samples, 16_000, 60.0).channels.values()
    first = next(blocks)
    assert (first.dtype, len(first)) == (np.float32, BLOCK_SAMPLES)
    np.testing.assert_array_equal(np.concatenate([first, *blocks]), samples / 32_768)


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
