"""Files and pipes of every container, made by PyAV: decoded whole, or said why not."""

import io
import os
import re
import resource
import signal
import socket
import struct
from collections.abc import Generator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import av
import numpy as np
import pytest
import soundfile
import soxr
from containers import muxed
from waiting import wait_until

from conch.audio import decoder, intake, messages
from conch.audio.decoder import Decoding
from conch.audio.intake import AudioFile
from conch.audio.recording import file_recording
from conch.audio.sniffing import container_of
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


class Here:
    """A source of bytes, and a sink of samples, in this process."""

    def __init__(self, data: bytes) -> None:
        self.data, self.samples = data, bytearray()
        self.size: int | None = len(data)

    def at(self, place: int, size: int) -> bytes:
        return self.data[place : place + size]

    def begin(self, *form: object) -> None:
        self.form = form

    def write(self, samples: bytes | memoryview) -> None:
        self.samples += samples


def decode_here(data: bytes) -> bytearray:
    """Decode in this process, whose constants a test may change."""
    here = Here(data)
    Decoding(here, here, "AUDIO", container=None, fills_gaps=True).run()
    return here.samples


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
    with pytest.raises(AudioError, match="an MP4 without its whole index, which is"):
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
    monkeypatch.setattr(decoder, "MAX_LOST_FIRST", 19)
    with pytest.raises(AudioError, match=r"^AUDIO holds no samples: found "):
        decode_here(bytes(data))


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
    file = AudioFile(muxed(speech, RATE, "wav", codec))
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
    file = AudioFile(buffer.getvalue())
    assert file.num_channels == 8
    result = np.concatenate(list(file.blocks(10_000)))
    np.testing.assert_allclose(result, samples, atol=0.01)  # it is written in 8 bit


def test_blocks_are_bounded_and_the_file_is_closed_with_them(speech):
    file = AudioFile(muxed(np.stack([speech, speech], 1), RATE, "matroska", "aac"))
    blocks = file.blocks(4000)
    assert next(blocks).shape == (4000, file.num_channels) == (4000, 2)
    blocks.close()
    with pytest.raises(StopIteration):
        next(blocks)


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
    monkeypatch.setattr(decoder, "DECODERS", "opus")
    with pytest.raises(
        AudioError, match=r"codec of AUDIO is not supported: found container .* with streams audio"
    ):
        decode_here(muxed(speech, RATE, "ipod", "aac"))


def test_a_file_that_is_too_long_by_its_header_and_one_that_does_not_tell(speech):
    for kind in ("m4a", "aac"):
        with pytest.raises(AudioError, match="this server takes at most 5 s"):
            recording = file_recording(muxed(speech, RATE, **KINDS[kind]), 5.0)
            list(recording.channels[0])


def with_data_size(wav: bytes, size: int) -> bytes:
    """Return a WAV whose header says so many bytes of samples."""
    at = wav.index(b"data") + 4
    return wav[:at] + struct.pack("<I", size) + wav[at + 4 :]


class Appended(io.RawIOBase):
    """A file to which is only appended, as to a pipe."""

    def __init__(self) -> None:
        self.data = b""

    def write(self, data: Any) -> int:
        self.data += bytes(data)
        return len(data)

    def writable(self) -> bool:
        return True


def piped(samples: np.ndarray, container: str, codec: str) -> bytes:
    """Return a file that was written to a pipe: its header has no length."""
    pipe = Appended()
    sink = SimpleNamespace(write=pipe.write)
    with av.open(sink, "w", format=container) as out:
        stream: Any = out.add_stream(codec, rate=RATE, layout="mono")
        stream.bit_rate = 64_000
        frame = av.AudioFrame.from_ndarray(samples[np.newaxis], "fltp", "mono")
        frame.rate = RATE
        size = stream.codec_context.frame_size or 4096
        resampler = av.AudioResampler(stream.format, "mono", RATE, size)
        for piece in [*resampler.resample(frame), *resampler.resample(None), None]:
            out.mux(stream.encode(piece))
    return pipe.data


JOINED = {
    "opus": [{"container": "ogg", "codec": "libopus", "file_rate": 48_000}] * 2,
    "vorbis": [{"codec": "vorbis"}] * 2,
    "vorbis of another rate": [{"codec": "vorbis"}, {"codec": "vorbis", "file_rate": 44_100}],
    "opus, then vorbis": [
        {"container": "ogg", "codec": "libopus", "file_rate": 48_000},
        {"codec": "vorbis"},
    ],
    "mp3": [{"container": "mp3", "codec": "libmp3lame"}] * 2,
    "mp3 of another rate": [
        {"container": "mp3", "codec": "libmp3lame"},
        {"container": "mp3", "codec": "libmp3lame", "file_rate": 44_100},
    ],
    "flac": [{"container": "flac", "codec": "flac"}] * 2,
    "flac of another rate": [
        {"container": "flac", "codec": "flac"},
        {"container": "flac", "codec": "flac", "file_rate": 44_100},
    ],
    "aac": [{"container": "adts", "codec": "aac"}] * 2,
    "wav": [{"container": "wav", "codec": "pcm_s16le"}] * 2,
    "mp3 after wav": [
        {"container": "wav", "codec": "pcm_s16le"},
        {"container": "mp3", "codec": "libmp3lame"},
    ],
    "m4a": [{"container": "ipod", "codec": "aac"}] * 2,
    "mp4 for the web": [{"container": "mp4", "codec": "aac", "movflags": "faststart"}] * 2,
    "mp4 in fragments": [KINDS["mp4 in fragments"]] * 2,
    "webm": [{"container": "webm", "codec": "libopus", "file_rate": 48_000}] * 2,
    "wav after flac": [
        {"container": "flac", "codec": "flac"},
        {"container": "wav", "codec": "pcm_s16le"},
    ],
    "w64": [{"container": "w64", "codec": "pcm_s16le"}] * 2,
}


def made(samples: np.ndarray, how: dict[str, Any]) -> bytes:
    """Return a file; PyAV has no encoder of Vorbis."""
    if how["codec"] != "vorbis":
        return muxed(samples, RATE, **how)
    file, rate = io.BytesIO(), how.get("file_rate", RATE)
    soundfile.write(file, soxr.resample(samples, RATE, rate), rate, format="OGG")
    return file.getvalue()


@pytest.mark.parametrize("kind", JOINED)
@pytest.mark.parametrize("is_stereo", [False, True])
def test_files_that_were_joined_are_all_heard(kind, is_stereo, speech):
    first, second = speech[: 3 * RATE], speech[3 * RATE : 6 * RATE]
    other = np.stack([second, second], 1) if is_stereo else second
    parts = (first, other)
    data = b"".join(map(made, parts, JOINED[kind]))
    waveform, warnings = decoded(data)
    assert warnings == ()
    assert len(waveform) == pytest.approx(6 * RATE, abs=0.3 * RATE)
    assert correlation(waveform[-3 * RATE :], second) > 0.9
    if kind not in ("m4a", "w64"):  # an index at the end; a length that FFmpeg keeps to itself
        result = from_pipe(data)
        assert len(result) == pytest.approx(len(waveform), abs=0.1 * RATE)


def from_pipe(data: bytes) -> np.ndarray:
    """Return the samples of a container that comes over a pipe, mono, at its own rate / 16 kHz."""
    pipe = AudioFile(
        lambda place, size: data[place : place + size], container=container_of(data[:4096])
    )
    mono = np.concatenate([piece.mean(axis=1) for piece in pipe.pieces()])
    return mono[:: pipe.sample_rate // RATE]


@pytest.mark.parametrize(
    ("container", "codec"),
    [("flac", "flac"), ("asf", "wmav2"), ("avi", "libmp3lame"), ("matroska", "libopus")],
)
def test_what_was_written_to_a_pipe_is_whole(container, codec, speech):
    if codec == "libopus":
        data = muxed(speech, RATE, container, codec, file_rate=48_000, live="1")
    else:
        data = piped(speech, container, codec)
    waveform, warnings = decoded(data)
    assert warnings == ()
    assert len(waveform) == pytest.approx(len(speech), abs=0.2 * RATE)
    assert len(from_pipe(data)) == pytest.approx(len(waveform), abs=0.2 * RATE)


def test_an_mp3_without_a_length_is_read_to_its_end(speech):
    varied = np.concatenate([speech, 0 * speech, speech / 50])
    data = muxed(varied, RATE, "mp3", "libmp3lame", write_xing="0")
    waveform, warnings = decoded(data)
    assert warnings == ()
    assert len(waveform) == pytest.approx(len(varied), abs=0.2 * RATE)


@pytest.mark.parametrize("codec", ["adpcm_ima_wav", "adpcm_ms", "pcm_mulaw", "libmp3lame"])
def test_a_wav_of_any_codec_is_not_cut_off(codec, speech):
    waveform, warnings = decoded(muxed(speech, RATE, "wav", codec))
    assert warnings == ()
    assert correlation(waveform, speech) > 0.9


@pytest.mark.parametrize("container", ["mpeg", "vob", "mpegts", "matroska", "wav"])
def test_mp2_is_decoded(container, speech):
    waveform, warnings = decoded(muxed(speech, RATE, container, "mp2", file_rate=48_000))
    assert warnings == ()
    assert correlation(waveform, speech) > 0.95


def test_a_matroska_whose_times_begin_late_is_whole(speech):
    waveform, warnings = decoded(
        muxed(speech, RATE, "matroska", "flac", output_ts_offset="20000000")
    )
    assert warnings == ()
    assert len(waveform) == pytest.approx(len(speech), abs=0.1 * RATE)


def test_bytes_behind_the_audio_are_told(speech):
    wav = muxed(speech, RATE, "wav", "pcm_s16le")
    size = 2 * len(speech)
    waveform, warnings = decoded(with_data_size(wav, size // 2))
    assert len(waveform) == len(speech) // 2
    left = len(wav) - wav.index(b"data") - 8 - size // 2
    assert warnings == (f"{left} bytes behind the audio are left out: they are no audio",)
    with pytest.raises(AudioError, match=f"has ended after .* s; {left} bytes behind the audio"):
        from_pipe(with_data_size(wav, size // 2))
    for tag in (b"LIST\x04\x00\x00\x00INFO", bytes(5000), b"TAG" + bytes(125)):
        assert decoded(wav + tag)[1] == ()


@pytest.mark.parametrize(
    ("container", "codec"),
    [("flac", "flac"), ("ogg", "libopus"), ("mp3", "libmp3lame"), ("webm", "libopus")],
)
def test_damage_is_told_wherever_it_is(container, codec, speech):
    rate = 48_000 if codec == "libopus" else None
    data = bytearray(muxed(speech, RATE, container, codec, file_rate=rate))
    middle = len(data) // 2
    data[middle : middle + 800] = bytes(800)
    for file in (bytes(data), bytes(data) + muxed(speech, RATE, container, codec, file_rate=rate)):
        (warning,) = decoded(file)[1]
        assert re.match(r"the file is damaged: \d of its packets, the first at \d\.\d s", warning)
    with pytest.raises(AudioError, match=r"^AUDIO is damaged after \d\.\d s$"):
        from_pipe(bytes(data))


def test_what_begins_like_an_mp4_and_is_none_is_heard_once(speech):
    data = b"\0\0\0\4ftyp" + muxed(speech, RATE, "mp3", "libmp3lame")
    assert len(decoded(data)[0]) == pytest.approx(len(speech), abs=0.2 * RATE)


def test_files_that_are_joined_without_end_are_left_out(speech, monkeypatch):
    monkeypatch.setattr(decoder, "MAX_PIECES", 10)
    here = Here(muxed(speech[:160], RATE, "wav", "pcm_s16le") * 11)
    decoding = Decoding(here, here, "AUDIO", container=None, fills_gaps=True)
    decoding.run()
    (warning,) = decoding.warnings
    assert "are left out: more than 10 files are joined" in warning


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        (messages.SAMPLES, b"1234"),
        (messages.DONE, b"[]"),
        (messages.FORM, b"{"),
        (messages.FORM, b'{"rate": 16000, "channels": 0, "sample_type": "s16", "length_s": null}'),
        (
            messages.FORM,
            b'{"rate": 16000, "channels": 1, "sample_type": "other", "length_s": null}',
        ),
        (messages.FORM, b'{"rate": 1, "channels": 1, "sample_type": "s16", "length_s": null}'),
        (b"?", b""),
    ],
)
def test_what_a_decoder_should_not_say_is_an_error_of_the_audio(kind, payload):
    with pytest.raises(AudioError, match=r"AUDIO"):
        intake.said(kind, payload, None, "AUDIO")
    form = intake.SampleFormat(RATE, 2, "s16", None)
    with pytest.raises(AudioError, match="AUDIO cannot be decoded: its decoder crashed"):
        intake.said(messages.SAMPLES, b"123", form, "AUDIO")


@pytest.mark.parametrize("channels", [1, 8, 40])
def test_all_channels_of_a_short_wav_come_over_a_pipe(channels):
    block = 2 * channels
    head = struct.pack("<HHIIHH", 1, channels, RATE, RATE * block, block, 16)
    wav = b"RIFF" + struct.pack("<I", 36 + block) + b"WAVEfmt \x10\0\0\0" + head
    wav += b"data" + struct.pack("<I", block) + struct.pack(f"<{channels}h", *range(channels))
    pipe = AudioFile(lambda place, size: wav[place : place + size], container="wav")
    (piece,) = pipe.pieces()
    np.testing.assert_array_equal(piece * 2**15, [range(channels)])


@pytest.mark.parametrize("rate", [1, 3_999, 192_001])
@pytest.mark.parametrize("is_piped", [False, True])
def test_a_rate_out_of_range_is_refused_before_anything_is_resampled(rate, is_piped, speech):
    wav = bytearray(muxed(speech[:RATE], RATE, "wav", "pcm_s16le"))
    struct.pack_into("<I", wav, 24, rate)
    with pytest.raises(AudioError, match=f"sample rate of AUDIO takes 4000 .*; sent: {rate}$"):
        (from_pipe if is_piped else decoded)(bytes(wav))


def begun(data: bytes) -> tuple[Generator[np.ndarray, None, None], int]:
    """Begin to read a file with a decoder of its own; return the rest of it and its process."""
    file = AudioFile(data)
    intake._POOL._idle.clear()
    before = decoders()
    pieces = file.pieces()
    next(pieces)
    (pid,) = decoders() - before
    return pieces, pid


def decoders() -> set[int]:
    starter = intake._POOL._process
    assert starter is not None
    children = Path(f"/proc/{starter.pid}/task/{starter.pid}/children").read_text()
    return set(map(int, children.split()))


def test_a_decoder_that_crashes_is_an_error_of_one_file(speech):
    data = muxed(np.tile(speech, 20), RATE, "flac", "flac")
    other = AudioFile(data).pieces()
    size = len(next(other))
    crashed, pid = begun(data)
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(AudioError, match="cannot be decoded: its decoder crashed, or took too"):
        list(crashed)
    assert size + sum(map(len, other)) == 20 * len(speech)
    assert sum(map(len, AudioFile(data).pieces())) == 20 * len(speech)


def test_a_decoder_that_hangs_is_an_error(speech, monkeypatch):
    monkeypatch.setattr(intake, "SILENT_S", 1)
    hung, pid = begun(muxed(np.tile(speech, 20), RATE, "flac", "flac"))
    os.kill(pid, signal.SIGSTOP)
    with pytest.raises(AudioError, match="cannot be decoded: its decoder crashed, or took too"):
        list(hung)
    os.kill(pid, signal.SIGKILL)


def test_few_decoders_are_kept(speech):
    data = muxed(np.tile(speech, 20), RATE, "flac", "flac")
    many = [AudioFile(data).pieces() for _ in range(intake.MAX_IDLE + 3)]
    for pieces in many:
        next(pieces)
    assert len(decoders()) >= len(many)
    for pieces in many:
        assert sum(map(len, pieces)) > len(speech)
    wait_until(lambda: len(decoders()) == intake.MAX_IDLE)


def test_decoders_are_started_again(speech):
    data = muxed(speech, RATE, "flac", "flac")
    AudioFile(data)
    intake._POOL._idle.clear()
    starter = intake._POOL._process
    assert starter is not None
    starter.kill()
    starter.wait()
    assert sum(map(len, AudioFile(data).pieces())) == len(speech)


def test_a_decoder_has_limits_and_nothing_of_ours(speech, monkeypatch):
    intake._POOL.end()
    monkeypatch.setenv("CONCH_API_KEYS", "a secret")
    pieces, pid = begun(muxed(np.tile(speech, 20), RATE, "flac", "flac"))
    limits = Path(f"/proc/{pid}/limits").read_text()
    assert re.search(r"Max open files +0 +0", limits)
    assert re.search(r"Max file size +0 +0", limits)
    assert re.search(r"Max address space +\d+ +\d+", limits)
    assert len(os.listdir(f"/proc/{pid}/fd")) == 1
    assert b"secret" not in Path(f"/proc/{pid}/environ").read_bytes()
    pieces.close()
    wait_until(lambda: not Path(f"/proc/{pid}").exists())


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
    before = os.stat("secret.wav").st_atime_ns
    with pytest.raises(AudioError, match=r"AUDIO cannot be decoded .* found text that begins with"):
        file_recording(text.encode(), 3600.0)
    assert os.stat("secret.wav").st_atime_ns == before


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
