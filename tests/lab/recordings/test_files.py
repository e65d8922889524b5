from pathlib import Path

import numpy as np
import pytest
import soundfile

from conch.bench.samples import decode
from conch.scoring.manifest import ManifestEntry, read_manifest
from conch.wire.errors import BenchError
from lab.recordings.files import write_recordings
from lab.recordings.joined import Joining
from lab.waveforms import waveform_of

DATA = Path(__file__).parents[2] / "data"
JOINING = Joining(seconds=10)


@pytest.fixture(scope="module")
def utterances() -> list[ManifestEntry]:
    return read_manifest(DATA / "manifest.tsv")


def test_recordings_have_what_they_are_made_of(
    utterances: list[ManifestEntry], tmp_path: Path
) -> None:
    made = write_recordings(utterances, JOINING, tmp_path)
    assert len(made) > 1
    assert [item.path.name for item in made[:2]] == ["recording-0001.flac", "recording-0002.flac"]
    assert sum(len(item.parts) for item in made) == len(utterances)
    for item in made:
        recording = decode(item.path)
        assert recording.sample_rate == 16_000
        # The last utterance ends with the recording.
        assert recording.duration_s == pytest.approx(item.parts[-1].end_s)
        for part in item.parts:
            span = slice(round(part.start_s * 16_000), round(part.end_s * 16_000))
            # FLAC here has 16 bits.
            expected = waveform_of(part.path)
            np.testing.assert_allclose(recording.waveform[span], expected, atol=2**-15)


def test_a_telephone_call_is_a_wav_in_g711(utterances: list[ManifestEntry], tmp_path: Path) -> None:
    joining = Joining(seconds=10, is_telephone=True)
    (call,) = write_recordings(utterances[:2], joining, tmp_path)
    info = soundfile.info(call.path)
    assert (info.format, info.subtype, info.samplerate) == ("WAV", "ULAW", 8_000)
    assert info.duration == pytest.approx(call.parts[-1].end_s, abs=0.001)


def test_a_limit_counts_recordings_and_spreads_them(
    utterances: list[ManifestEntry], tmp_path: Path
) -> None:
    (first, second) = (tmp_path / name for name in ("all", "one"))
    for folder in (first, second):
        folder.mkdir()
    every = write_recordings(utterances * 3, JOINING, first)
    (middle,) = write_recordings(utterances * 3, JOINING, second, limit=1)
    same = every[len(every) // 2]
    assert middle.path.name == same.path.name
    assert middle.parts == same.parts
    assert middle.path.read_bytes() == same.path.read_bytes()


def test_what_is_no_audio_is_named(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match=r"none\.wav cannot be decoded"):
        write_recordings([ManifestEntry(tmp_path / "none.wav", "no")], JOINING, tmp_path)
