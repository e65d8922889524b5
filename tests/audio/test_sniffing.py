"""Containers by their first bytes."""

import base64
import contextlib
import io
import os
import re
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from audio_files import audio_file
from containers import muxed

from conch.audio import sniffing
from conch.audio.sniffing import NUM_FIRST_BYTES, container_of, first_bytes
from conch.wire.errors import AudioError

RATE = 22_050
TONE = (0.5 * np.sin(np.arange(2 * RATE) * 2 * np.pi * 220 / RATE)).astype(np.float32)


def encoded(format: str, subtype: str | None = None) -> bytes:
    """Return two seconds of a tone on the left channel, silence on the right."""
    stereo = np.stack([TONE, 0 * TONE], axis=1)
    return audio_file(stereo, RATE, format=format, subtype=subtype)


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


@pytest.mark.parametrize("format", ["WAV", "OGG", "FLAC"])
def test_no_more_is_waited_for_than_is_needed(format: str) -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as pipe, os.fdopen(writing, "wb", buffering=0) as sender:
        sender.write(encoded(format)[:40])
        assert container_of(first_bytes(pipe)) == format.lower()


@pytest.mark.parametrize(
    ("first", "what"),
    [
        (b"\x1f\x43\xb6\x75" + bytes(16), "a piece of a webm without its header"),
        (b"\0\0\0\x20moof" + bytes(16), "a fragment of an MP4 without its header"),
        (b"OggS\0\0" + bytes(16), "the middle of an Ogg stream, without its headers"),
    ],
)
def test_a_later_piece_of_a_container_is_no_raw_audio(first: bytes, what: str) -> None:
    with pytest.raises(AudioError, match=f"^{what}: send it from its beginning$"):
        container_of(first)


@pytest.mark.parametrize(("container", "codec"), [("mp3", "libmp3lame"), ("adts", "aac")])
@pytest.mark.parametrize("start", [1001, 2777])
def test_the_middle_of_a_stream_of_frames_is_recognised(
    container: str, codec: str, start: int
) -> None:
    noise = np.random.default_rng(0).normal(0, 0.1, 4 * RATE).astype(np.float32)
    data = muxed(noise, RATE, container, codec)
    assert container_of(data[start : start + NUM_FIRST_BYTES]) == {"adts": "aac"}.get(
        container, container
    )


@pytest.mark.parametrize("level", [2, 30, 300, 8000])
def test_noise_of_any_level_is_raw_audio(level: int) -> None:
    rng = np.random.default_rng(level)
    for _ in range(300):
        noise = rng.normal(0, level, NUM_FIRST_BYTES // 2).clip(-32768, 32767).astype("<i2")
        assert container_of(noise.tobytes()) is None


NOISE = np.random.default_rng(0).bytes(3000)


def description_of(data: bytes) -> str:
    return sniffing.description_of(lambda place, size: data[place : place + size], len(data))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "nothing"),
        (bytes(5000), "zeros only"),
        (b"<!DOCTYPE html>\n<html>\n", "text that begins with '<!DOCTYPE html> <html>'"),
        (b"\xef\xbb\xbfhello", "text that begins with 'hello'"),
        ("Grüße ".encode() * 100, "text that begins with 'Grüße Grüße Grüße Grüße Grüße Gr'"),
        (b"a" * 50, "text that begins with 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'"),
        (base64.b64encode(NOISE), "what looks like base64: send the bytes themselves"),
        (base64.encodebytes(NOISE), "what looks like base64: send the bytes themselves"),
        (
            b"data:audio/wav;base64," + base64.b64encode(NOISE),
            "what looks like base64: send the bytes themselves",
        ),
        (b"%PDF-1.7\n", "a PDF"),
        (b"\xff\xd8\xff\xe0" + NOISE, "a JPEG picture"),
        (b"\xff\xd8\xff\xdb" + NOISE, "a JPEG picture"),
        (b"PK\x03\x04" + NOISE, "a zip archive (or an office document)"),
        (b"\x80\x01\x02\x03\x04\x05\x06\x07\x08", "bytes that begin with 80 01 02 03 04 05 06 07"),
    ],
)
def test_what_is_no_audio_is_named(data, words):
    assert description_of(data) == words


def test_half_an_mp4():
    data = b"\0\0\0\x0cftypM4A \0\0\x20\0moov" + NOISE
    assert description_of(data).startswith(
        "an MP4 without its whole index, which is usually at the end"
    )
    whole = b"\0\0\0\x0cftypM4A \0\0\0\x08moov" + NOISE
    assert description_of(whole) == "an MP4 whose index names no audio that is there"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"RIFF\x24\0\0\0WAVE", "a WAV without samples"),
        (b"\x1f\x43\xb6\x75" + NOISE, "a piece of a webm without its header"),
        (b"\0\0\0\x10moof" + NOISE, "a fragment of an MP4 without its header"),
        (b"OggS\0\0" + NOISE, "the middle of an Ogg stream, without its headers"),
    ],
)
def test_pieces_of_containers_are_named(data, words):
    assert description_of(data) == words
