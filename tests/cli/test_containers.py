"""Containers by their first bytes, and their audio out of files and pipes."""

import contextlib
import importlib.util
import io
import os
import re
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import soundfile

from conch.audio import ffmpeg, pieces
from conch.audio.pieces import decoded_pipe, length_of
from conch.audio.sniffing import NUM_FIRST_BYTES, container_of, first_bytes
from conch.cli import containers
from conch.cli.containers import decoded_file
from conch.wire.errors import AudioError

needs_pyav = pytest.mark.skipif(importlib.util.find_spec("av") is None, reason="needs PyAV")

RATE = 22_050
TONE = (0.5 * np.sin(np.arange(2 * RATE) * 2 * np.pi * 220 / RATE)).astype(np.float32)


def encoded(format: str, subtype: str | None = None) -> bytes:
    """Return two seconds of a tone on the left channel, silence on the right."""
    file = io.BytesIO()
    stereo = np.stack([TONE, 0 * TONE], axis=1)
    soundfile.write(file, stereo, RATE, format=format, subtype=subtype)
    return file.getvalue()


def m4a(path: Path, *, index_first: bool) -> bytes:
    """Write two seconds of a tone to a file; return its bytes."""
    import av

    flags = {"movflags": "faststart"} if index_first else {}
    with av.open(str(path), "w", format="mp4", options=flags) as container:
        stream = container.add_stream("aac", rate=RATE)
        stream.layout = "mono"
        for start in range(0, len(TONE), 1024):
            samples = np.zeros(1024, np.float32)
            samples[: len(TONE) - start] = TONE[start : start + 1024]
            frame = av.AudioFrame.from_ndarray(samples[None], format="fltp", layout="mono")
            frame.sample_rate = RATE
            frame.pts = start
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path.read_bytes()


@contextmanager
def piped(data: bytes) -> Iterator[io.BufferedReader]:
    """Return the reading end of a pipe, which is not seekable."""
    reading, writing = os.pipe()

    def send() -> None:
        # A reader with enough closes its end.
        with contextlib.suppress(BrokenPipeError), os.fdopen(writing, "wb") as sender:
            sender.write(data)

    sending = threading.Thread(target=send)
    sending.start()
    with os.fdopen(reading, "rb") as pipe:
        yield pipe
    sending.join()


@pytest.mark.parametrize(
    ("format", "container"),
    [("WAV", "wav"), ("RF64", "wav"), ("OGG", "ogg"), ("FLAC", "flac"), ("MP3", "mp3"),
     ("AIFF", "aiff"), ("AU", "au"), ("CAF", "caf")],
)  # fmt: skip
def test_what_libsndfile_writes_is_recognised(format: str, container: str) -> None:
    with piped(encoded(format)[:8000]) as pipe:
        assert container_of(first_bytes(pipe)) == container


@pytest.mark.parametrize(
    ("first", "container"),
    [
        (b"ID3\x04\0\0\0", "mp3"),
        (b"\0\0\0\x20ftypM4A \0\0\0\0", "mov"),
        (b"\x1aE\xdf\xa3\x9fB\x86\x81", "matroska"),
        (bytes.fromhex("fff15080 02ff fc") + bytes(16) + bytes.fromhex("fff15080 02ff fc"), "aac"),
    ],
)
def test_other_containers_are_recognised(first: bytes, container: str) -> None:
    assert container_of(first) == container


def samples(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}h", *values)


@pytest.mark.parametrize(
    "first",
    [
        b"",
        bytes(64),
        samples(*[-1] * 2048),
        # As the first header of an mp3, which no second one follows.
        samples(-1025, 25_744, *range(2000)),
        samples(*np.random.default_rng(0).normal(0, 300, 32).astype(int).tolist()),
        b"RIFF\0\0\0\0sfbk",
    ],
)
def test_raw_samples_are_not_taken_for_a_container(first: bytes) -> None:
    assert container_of(first) is None


@pytest.mark.parametrize(
    ("first", "what"),
    [
        (b"hello\n", "text, not audio"),
        ("Grüße aus Köln, und noch viel mehr".encode()[:-1] * 3, "text, not audio"),
        (("x" * 63 + "ü").encode(), "text, not audio"),
        (b"%PDF-1.7\n\xe2", "a PDF, not audio"),
        (b"\x89PNG\r\n", "a PNG picture, not audio"),
        (b"PK\x03\x04\x14\0", "a zip archive (or an office document), not audio"),
    ],
)
def test_what_is_no_audio_is_refused(first: bytes, what: str) -> None:
    with pytest.raises(AudioError, match=f"^{re.escape(what)}$"):
        container_of(first)


def test_no_more_is_waited_for_than_is_needed() -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as pipe, os.fdopen(writing, "wb", buffering=0) as sender:
        sender.write(samples(*range(40)))
        assert first_bytes(pipe) == samples(*range(32))


def check_tone(pieces: np.ndarray, rate: int, *, level: float) -> None:
    assert rate == RATE
    assert len(pieces) == pytest.approx(len(TONE), abs=3000)
    middle = pieces[len(pieces) // 4 : len(pieces) // 2]
    assert np.abs(middle).max() == pytest.approx(level, abs=0.03)
    loudest = np.argmax(np.abs(np.fft.rfft(middle))) * RATE / len(middle)
    assert loudest == pytest.approx(220, abs=5)


@needs_pyav
@pytest.mark.parametrize("format", ["WAV", "OGG", "FLAC", "MP3"])
def test_a_container_out_of_a_pipe_is_decoded_to_mono_at_its_own_rate(format: str) -> None:
    with piped(encoded(format)) as pipe:
        first = first_bytes(pipe)
        container = container_of(first)
        assert container is not None
        found = decoded_pipe(first, pipe, container, "stdin")
        pieces = list(found.pieces)
    assert len(pieces) > 4
    check_tone(np.concatenate(pieces), found.sample_rate, level=0.25)


@pytest.mark.parametrize("format", ["WAV", "OGG", "FLAC", "MP3"])
@pytest.mark.parametrize("has_pyav", [True, False])
def test_a_file_is_decoded_to_mono(
    format: str, has_pyav: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_pyav:
        monkeypatch.setattr(containers, "is_pyav_there", lambda: False)
    found = decoded_file(io.BytesIO(encoded(format)), "tone")
    check_tone(np.concatenate(list(found.pieces)), found.sample_rate, level=0.25)


@needs_pyav
@pytest.mark.parametrize("index_first", [True, False])
def test_an_m4a_from_a_file(index_first: bool, tmp_path: Path) -> None:
    path = tmp_path / "tone.m4a"
    data = m4a(path, index_first=index_first)
    found = decoded_file(io.BytesIO(data), "tone.m4a")
    check_tone(np.concatenate(list(found.pieces)), found.sample_rate, level=0.5)
    assert length_of(io.BytesIO(data)) == pytest.approx(2, abs=0.1)


@needs_pyav
def test_an_m4a_from_a_pipe_has_its_index_in_front(tmp_path: Path) -> None:
    def decoded(*, index_first: bool) -> np.ndarray:
        with piped(m4a(tmp_path / "tone.m4a", index_first=index_first)) as pipe:
            found = decoded_pipe(first_bytes(pipe), pipe, "mov", "stdin")
            return np.concatenate(list(found.pieces))

    check_tone(decoded(index_first=True), RATE, level=0.5)
    with pytest.raises(AudioError, match=r"stdin .* an m4a needs its index in front: name"):
        decoded(index_first=False)


@needs_pyav
@pytest.mark.parametrize("is_piped", [False, True])
def test_a_damaged_container_is_an_error(is_piped: bool) -> None:
    data = encoded("FLAC")[:40] + bytes(2000)
    with pytest.raises(AudioError, match=r"^it (is damaged|cannot be read|holds no samples)"):
        if is_piped:
            with piped(data) as pipe:
                list(decoded_pipe(first_bytes(pipe), pipe, "flac", "it").pieces)
        else:
            list(decoded_file(io.BytesIO(data), "it").pieces)


@needs_pyav
def test_a_file_that_names_another_opens_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("secret.wav").write_bytes(encoded("WAV"))
    # Not text alone, which is refused before FFmpeg sees it.
    Path("list").write_bytes(b"ffconcat version 1.0\n# \x01\nfile 'secret.wav'\n")
    with pytest.raises(AudioError, match=r"^list cannot be read: "):
        decoded_file(io.BytesIO(Path("list").read_bytes()), "list")
    assert length_of(io.BytesIO(Path("list").read_bytes())) is None


@needs_pyav
def test_a_codec_that_is_not_of_the_list_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = m4a(tmp_path / "tone.m4a", index_first=True)
    monkeypatch.setattr(ffmpeg, "CODECS", "opus")
    with pytest.raises(AudioError, match=r"^the audio codec of it is not supported$"):
        decoded_file(io.BytesIO(data), "it")


def test_without_pyav_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (containers, pieces):
        monkeypatch.setattr(module, "is_pyav_there", lambda: False)
    with pytest.raises(AudioError, match=r"stdin is a container \(mp3\), and .* pip install av"):
        decoded_pipe(b"ID3", io.BufferedReader(io.BytesIO()), "mp3", "stdin")
    data = b"\0\0\0\x20ftypM4A " + bytes(NUM_FIRST_BYTES)
    with pytest.raises(AudioError, match=r"x\.m4a cannot be read: .*PyAV .*pip install av"):
        decoded_file(io.BytesIO(data), "x.m4a")
    assert length_of(io.BytesIO(data)) is None


def test_a_file_that_is_text_says_so() -> None:
    with pytest.raises(AudioError, match=r"^notes\.txt is text, not audio$"):
        decoded_file(io.BytesIO(b"some notes\n"), "notes.txt")


def test_the_length_of_what_is_no_audio_is_not_known() -> None:
    assert length_of(io.BytesIO(b"text")) is None
    assert length_of(io.BytesIO(encoded("WAV"))) == 2.0
