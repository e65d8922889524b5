"""Files that libsndfile does not read, made by PyAV."""

import io
import os
import resource
import socket
import struct
from pathlib import Path

import av
import numpy as np
import pytest
import soundfile
from containers import muxed

from conch.audio import containers, ffmpeg
from conch.audio.containers import ContainerFile
from conch.audio.recording import file_recording
from conch.wire.errors import AudioError

DATA = Path(__file__).parents[1] / "data"
RATE = 16_000

KINDS = {
    "m4a": {"container": "ipod", "codec": "aac", "file_rate": 44_100},
    "mp4 for the web": {"container": "mp4", "codec": "aac", "movflags": "faststart"},
    "mp4 in fragments": {
        "container": "mp4",
        "codec": "aac",
        "movflags": "frag_keyframe+empty_moov+default_base_moof",
        "frag_duration": "1000000",
    },
    "mp4 with alac": {"container": "mp4", "codec": "alac", "movflags": "faststart"},
    "3gp": {
        "container": "3gp",
        "codec": "libopencore_amrnb",
        "file_rate": 8_000,
        "bit_rate": 12_200,
        "movflags": "faststart",
    },
    "webm": {"container": "webm", "codec": "libopus", "file_rate": 48_000},
    "mkv": {"container": "matroska", "codec": "aac", "video": True},
    "mp4 film": {"container": "mp4", "codec": "aac", "video": True, "movflags": "faststart"},
    "avi": {"container": "avi", "codec": "mp3", "video": True},
    "mpeg-ts": {"container": "mpegts", "codec": "aac"},
    "flv": {"container": "flv", "codec": "aac", "file_rate": 44_100},
    "aac": {"container": "adts", "codec": "aac"},
    "amr": {
        "container": "amr",
        "codec": "libopencore_amrnb",
        "file_rate": 8_000,
        "bit_rate": 12_200,
    },
    "wma": {"container": "asf", "codec": "wmav2", "file_rate": 44_100, "bit_rate": 64_000},
    "caf with alac": {"container": "caf", "codec": "alac"},
    "ogg with flac": {"container": "ogg", "codec": "flac"},
    "ogg with opus": {"container": "ogg", "codec": "libopus", "file_rate": 48_000},
    "ac3": {"container": "ac3", "codec": "ac3", "file_rate": 48_000, "bit_rate": 96_000},
}

INDEX_AT_THE_END = {"m4a", "caf with alac"}

ANY_END = {"mpeg-ts", "ac3"}
"""Formats that do not tell their length, and may end after any frame."""


@pytest.fixture(scope="module")
def speech() -> np.ndarray:
    """Return eleven seconds of reading."""
    return soundfile.read(DATA / "kokoro_1_01119.ogg", dtype="float32")[0]


def decoded(data: bytes) -> tuple[np.ndarray, tuple[str, ...]]:
    recording = file_recording(data, 3600.0)
    (blocks,) = recording.channels.values()
    waveform = np.concatenate(list(blocks))
    assert recording.duration == len(waveform) / RATE
    return waveform, recording.warnings


def correlation(one: np.ndarray, other: np.ndarray) -> float:
    """Return how alike two waveforms are at their best offset, because codecs delay."""
    size = min(len(one), len(other))
    spectra = np.fft.rfft(one[:size], 2 * size) * np.fft.rfft(other[:size], 2 * size).conj()
    energy = np.linalg.norm(one[:size]) * np.linalg.norm(other[:size])
    return float(np.fft.irfft(spectra).max() / energy)


def least(kind: str) -> float:
    """Return the least correlation; a vocoder keeps the sound of a voice, not its waveform."""
    return 0.6 if KINDS[kind]["codec"] == "libopencore_amrnb" else 0.95


@pytest.mark.parametrize("kind", KINDS)
def test_every_container_is_read(kind, speech):
    waveform, warnings = decoded(muxed(speech, RATE, **KINDS[kind]))
    assert warnings == ()
    assert abs(len(waveform) - len(speech)) < 0.2 * RATE
    assert correlation(waveform, speech) > least(kind)


@pytest.mark.parametrize("kind", sorted(KINDS.keys() - INDEX_AT_THE_END))
def test_half_a_file_is_read_as_far_as_it_goes(kind, speech):
    data = muxed(speech, RATE, **KINDS[kind])
    waveform, warnings = decoded(data[: len(data) // 2])
    assert 0.3 < len(waveform) / len(speech) < 0.7
    assert correlation(waveform, speech[: len(waveform)]) > least(kind) - 0.05
    if kind not in ANY_END:
        assert len(warnings) == 1
        assert warnings[0].startswith(("the file is cut off: ", "the file breaks off after "))


def test_half_an_mp4_whose_index_is_at_its_end(speech):
    data = muxed(speech, RATE, "ipod", "aac")
    with pytest.raises(AudioError, match="an MP4 without its index, which is usually at the end"):
        file_recording(data[: len(data) // 2], 3600.0)


def test_a_header_alone(speech):
    data = muxed(speech, RATE, "mp4", "aac", movflags="faststart")
    with pytest.raises(AudioError, match=r"AUDIO (holds no samples|cannot be decoded)"):
        file_recording(data[: data.index(b"mdat") + 4], 3600.0)


def test_damage_in_the_middle_costs_what_is_damaged(speech):
    data = bytearray(muxed(speech, RATE, "matroska", "flac"))
    middle = len(data) // 2
    data[middle : middle + 3000] = np.random.default_rng(0).bytes(3000)
    waveform, warnings = decoded(bytes(data))
    assert len(waveform) > 0.9 * len(speech)
    # The audio after the damage keeps its place.
    behind = slice(len(waveform) - RATE // 2, len(waveform))
    np.testing.assert_allclose(waveform[behind], speech[behind], atol=1e-3)
    assert warnings
    assert warnings[0].startswith("the file is damaged: ")


def test_a_file_that_begins_with_much_damage_is_given_up(speech, monkeypatch):
    data = bytearray(muxed(speech, RATE, "matroska", "flac"))
    with av.open(io.BytesIO(data)) as container:
        packets = [bytes(packet) for packet in container.demux() if packet.size][:20]
    for packet in packets:
        at = data.index(packet)
        data[at : at + len(packet)] = bytes(len(packet))
    _, warnings = decoded(bytes(data))
    assert "the file is damaged: 20 of its packets, the first at 0." in warnings[0]
    monkeypatch.setattr(containers, "MAX_LOST_FIRST", 19)
    with pytest.raises(AudioError, match=r"^AUDIO holds no samples that can be decoded: found "):
        file_recording(bytes(data), 3600.0)


def test_a_gap_in_the_times_is_silence(speech):
    data = muxed(speech, RATE, "matroska", "pcm_s16le", skipped=(3.0, 6.0))
    waveform, _ = decoded(data)
    assert abs(len(waveform) - len(speech)) < 0.1 * RATE
    assert not waveform[int(3.1 * RATE) : int(5.8 * RATE)].any()
    np.testing.assert_allclose(
        waveform[7 * RATE : 8 * RATE], speech[7 * RATE : 8 * RATE], atol=1e-3
    )


@pytest.mark.parametrize("codec", ["pcm_u8", "pcm_s16le", "pcm_s24le", "pcm_s32le", "pcm_f64le"])
def test_samples_of_every_kind_have_the_same_level(codec, speech):
    file = ContainerFile(muxed(speech, RATE, "wav", codec))
    (block,) = file.blocks(len(speech))
    np.testing.assert_allclose(block[:, 0], speech, atol=0.01 if codec == "pcm_u8" else 1e-4)


def test_eight_channels_keep_their_order():
    buffer = io.BytesIO()
    tones = [np.sin(2 * np.pi * 200 * (k + 1) * np.arange(48_000) / 48_000) for k in range(8)]
    samples = 0.1 * np.stack(tones, axis=1).astype(np.float32)
    with av.open(buffer, "w", format="matroska") as out:
        stream = out.add_stream("wavpack", rate=48_000, layout="7.1")
        frame = av.AudioFrame.from_ndarray(samples.reshape(1, -1), "flt", "7.1")
        frame.rate = 48_000
        resampler = av.AudioResampler(stream.format, "7.1", 48_000, 12_000)
        for piece in [*resampler.resample(frame), *resampler.resample(None), None]:
            out.mux(stream.encode(piece))
    file = ContainerFile(buffer.getvalue())
    assert file.num_channels == 8
    found = np.concatenate(list(file.blocks(10_000)))
    np.testing.assert_allclose(found, samples, atol=0.01)  # it is written in 8 bit


def test_blocks_are_bounded_and_the_file_is_closed_with_them(speech):
    file = ContainerFile(muxed(np.stack([speech, speech], 1), RATE, "matroska", "aac"))
    blocks = file.blocks(4000)
    first = next(blocks)
    assert 4000 <= len(first) < 6000
    assert first.shape[1] == file.num_channels == 2
    blocks.close()
    with pytest.raises(AssertionError, match="not open"):
        file._container.size  # noqa: B018


def test_one_of_several_sound_tracks_is_transcribed(speech):
    waveform, warnings = decoded(muxed(speech, RATE, "matroska", "aac", tracks=2))
    assert abs(len(waveform) - len(speech)) < 0.1 * RATE
    assert warnings == ("the file has 2 audio tracks: only number 1 is transcribed",)


def test_a_film_without_sound_is_reported_as_such():
    buffer = io.BytesIO()
    with av.open(buffer, "w", format="matroska") as out:
        stream = out.add_stream("mpeg4", rate=5)
        stream.width = stream.height = 64
        stream.pix_fmt = "yuv420p"
        out.mux(stream.encode(av.VideoFrame(64, 64, "yuv420p")))
        out.mux(stream.encode(None))
    message = "AUDIO has no audio track: found container matroska,webm with streams video mpeg4"
    with pytest.raises(AudioError, match=message):
        file_recording(buffer.getvalue(), 3600.0)


def test_a_codec_that_is_not_of_the_list_is_not_run(speech, monkeypatch):
    monkeypatch.setattr(ffmpeg, "CODECS", "opus")
    with pytest.raises(
        AudioError, match=r"codec of AUDIO is not supported: found container .* with streams audio"
    ):
        file_recording(muxed(speech, RATE, "ipod", "aac"), 3600.0)


def test_a_file_that_is_too_long_by_its_header_and_one_that_does_not_tell(speech):
    for kind in ("m4a", "aac"):
        with pytest.raises(AudioError, match="this server takes at most 5 s"):
            recording = file_recording(muxed(speech, RATE, **KINDS[kind]), 5.0)
            list(recording.channels[0])


HOSTILE = {
    "m3u8": "#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXTINF:9,\n{url}\n#EXT-X-ENDLIST\n",
    "concat": "ffconcat version 1.0\nfile '{name}'\n",
    "concat of a path": "ffconcat version 1.0\nfile '{url}'\n",
    "dash": (
        '<?xml version="1.0"?><MPD xmlns="urn:mpeg:dash:schema:mpd:2011" type="static" '
        'mediaPresentationDuration="PT9S"><Period><AdaptationSet mimeType="audio/wav">'
        '<Representation id="1" bandwidth="1"><BaseURL>{url}</BaseURL></Representation>'
        "</AdaptationSet></Period></MPD>"
    ),
    "sdp": (
        "v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\nm=audio {port} RTP/AVP 0\n"
    ),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_file_that_names_another_opens_nothing(kind, speech, tmp_path, monkeypatch):
    soundfile.write(tmp_path / "secret.wav", speech, RATE)
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    text = HOSTILE[kind].format(url=tmp_path / "secret.wav", name="secret.wav", port=port)
    before = os.stat("secret.wav").st_atime_ns, os.listdir("/proc/self/fd")
    with pytest.raises(AudioError, match=r"AUDIO cannot be decoded .* found text that begins with"):
        file_recording(text.encode(), 3600.0)
    assert (os.stat("secret.wav").st_atime_ns, os.listdir("/proc/self/fd")) == before


def test_an_index_that_a_few_bytes_claim_takes_no_memory(speech):
    data = bytearray(muxed(speech[: 2 * RATE], RATE, "mp4", "aac", movflags="faststart"))
    claimed = 2**31 - 1
    at = data.index(b"stsz") + 8
    struct.pack_into(">II", data, at, 1, claimed)  # samples of one byte, so many
    at = data.index(b"stsc") + 12
    struct.pack_into(">III", data, at, 1, claimed, 1)  # all of them in the first chunk
    at = data.index(b"stts") + 12
    struct.pack_into(">II", data, at, claimed, 1024)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(AudioError):
        file_recording(bytes(data), 3600.0)
    taken_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert taken_kb < 200_000
