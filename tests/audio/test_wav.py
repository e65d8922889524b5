"""The header of a WAV file."""

import io

import pytest
import soundfile

from conch.audio.encoding import wav_header


def test_the_header_of_a_finished_file_has_its_size() -> None:
    head = wav_header(16_000, 10)
    assert (head[4:8], head[40:]) == ((46).to_bytes(4, "little"), (10).to_bytes(4, "little"))
    assert wav_header(16_000)[40:] == b"\xff" * 4


@pytest.mark.parametrize(("tag", "bits", "subtype"), [(1, 16, "PCM_16"), (6, 8, "ALAW")])
def test_it_says_the_form_of_samples(tag, bits, subtype) -> None:
    result = soundfile.info(io.BytesIO(wav_header(8000, 24, 2, tag, bits) + bytes(24)))
    assert (result.samplerate, result.channels, result.subtype) == (8000, 2, subtype)
    assert result.frames == 24 / 2 / (bits // 8)
