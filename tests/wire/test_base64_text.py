"""Bytes in texts."""

import base64

import pytest

from conch.wire.base64_text import bytes_of

DATA = bytes(range(256)) + b"\xff"
TEXT = base64.b64encode(DATA).decode()


@pytest.mark.parametrize(
    "text",
    [
        TEXT,
        TEXT.rstrip("="),
        base64.urlsafe_b64encode(DATA).decode(),
        f"data:audio/wav;base64,{TEXT}",
        f"data:audio/webm;codecs=opus;base64,{TEXT}",
    ],
)
def test_it_is_read_as_programs_write_it(text: str) -> None:
    assert bytes_of(text) == DATA
    assert bytes_of("") == b""


@pytest.mark.parametrize(
    ("sent", "error"),
    [
        (None, "it takes base64, or a data URL"),
        (3, "it takes base64, or a data URL"),
        ("?", "its base64 is damaged"),
        ("é", "its base64 is damaged"),
        ("AAAAA", "its base64 is damaged"),
        (f"data:audio/wav,{TEXT}", ";base64 stands before the comma"),
        (f"{TEXT},{TEXT}", "a data URL begins with data:"),
    ],
)
def test_what_is_none_is_named(sent: object, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        bytes_of(sent)


def test_what_is_too_long_is_not_decoded() -> None:
    assert bytes_of(TEXT, len(DATA)) == DATA
    with pytest.raises(ValueError, match="at most 256 bytes; sent: 257"):
        bytes_of("?" * len(TEXT.rstrip("=")), len(DATA) - 1)
