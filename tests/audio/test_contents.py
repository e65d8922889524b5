import base64

import numpy as np
import pytest

from conch.audio import sniffing

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
