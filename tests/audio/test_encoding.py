"""Bytes of every format, piece by piece."""

import io

import av
import numpy as np
import pytest
import soundfile

from conch.audio.encoding import CONTENT_TYPES, G711_TYPES, Encoder, wav_header

RATE = 24_000
TONE = (0.4 * np.sin(2 * np.pi * 440 * np.arange(RATE) / RATE)).astype(np.float32)


def encoded(format: str, rate: int) -> list[bytes]:
    encoder = Encoder(format, rate, RATE)
    pieces = [encoder.write(TONE[start : start + 4800]) for start in range(0, RATE, 4800)]
    return [*pieces, encoder.finish()]


@pytest.mark.parametrize("rate", [RATE, 16_000])
@pytest.mark.parametrize("format", [name for name in CONTENT_TYPES if name[:3] != "pcm"])
def test_a_file_has_the_sound_and_begins_with_the_first_piece(format: str, rate: int) -> None:
    pieces = encoded(format, rate)
    assert pieces[0] and pieces[1]
    with av.open(io.BytesIO(b"".join(pieces))) as file:
        stream = file.streams.audio[0]
        frames = [frame.to_ndarray() for frame in file.decode(stream)]
        decoded_rate = stream.rate
    samples = np.concatenate([frame.ravel() for frame in frames]).astype(np.float64)
    assert abs(len(samples) / decoded_rate - 1) < 0.12  # codecs pad both ends
    power = np.abs(np.fft.rfft(samples))
    assert abs(np.argmax(power) * decoded_rate / len(samples) - 440) < 3


def test_plain_samples_are_all_there() -> None:
    exact = b"".join(encoded("pcm_f32", RATE))
    np.testing.assert_array_equal(np.frombuffer(exact, np.float32), TONE)
    integers = np.frombuffer(b"".join(encoded("pcm_s16", RATE)), "<i2")
    np.testing.assert_allclose(integers / 32_767, TONE, atol=1 / 32_767)
    assert len(b"".join(encoded("pcm_s16", 12_000))) == RATE


def test_too_loud_samples_are_clipped() -> None:
    loud = Encoder("pcm_s16", RATE, RATE).write(np.array([-3.0, 3.0], np.float32))
    assert np.frombuffer(loud, "<i2").tolist() == [-32_767, 32_767]


def test_the_header_of_a_finished_file_has_its_size() -> None:
    head = wav_header(16_000, 10)
    assert (head[4:8], head[40:]) == ((46).to_bytes(4, "little"), (10).to_bytes(4, "little"))
    assert wav_header(16_000)[40:] == b"\xff" * 4


@pytest.mark.parametrize(("tag", "bits", "subtype"), [(1, 16, "PCM_16"), (6, 8, "ALAW")])
def test_it_says_the_form_of_samples(tag, bits, subtype) -> None:
    result = soundfile.info(io.BytesIO(wav_header(8000, 24, 2, tag, bits) + bytes(24)))
    assert (result.samplerate, result.channels, result.subtype) == (8000, 2, subtype)
    assert result.frames == 24 / 2 / (bits // 8)


@pytest.mark.parametrize(("format", "subtype"), [("mulaw", "ULAW"), ("alaw", "ALAW")])
def test_telephones_get_their_bytes_bare_or_in_a_wav_file(format: str, subtype: str) -> None:
    bare = b"".join(encoded(format, 8_000))
    file = io.BytesIO(b"".join(encoded(f"wav_{format}", 8_000)))
    with soundfile.SoundFile(file) as wav:
        assert (wav.samplerate, wav.subtype) == (8_000, subtype)
        samples = wav.read(dtype="int16")
    form = {"format": "RAW", "samplerate": 8_000, "channels": 1, "subtype": subtype}
    same, _ = soundfile.read(io.BytesIO(bare), dtype="int16", **form)
    np.testing.assert_array_equal(samples, same)
    assert len(bare) == 8_000
    assert {format, f"wav_{format}"} <= G711_TYPES.keys()
