"""Recognise the contents of a file from its bytes, without decoding it."""

import base64
import binascii
import re

from conch.audio.sniffing import NOT_AUDIO, is_text

UNKNOWN_LENGTH = 0x7FF00000
"""Smallest length in a header that means: until the end of the file."""
SHOWN_CHARS = 32
SHOWN_BYTES = 8

MIN_BASE64_CHARS = 64
"""Fewer characters could be a word."""


def found_in(data: bytes) -> str:
    """Return a description of bytes from their beginning, for error messages."""
    if not data:
        return "nothing"
    if not any(data):
        return "zeros only"
    for signature, name in NOT_AUDIO.items():
        if data.startswith(signature):
            return name
    if data[4:8] == b"ftyp" and b"moov" not in data:
        return (
            "an MP4 without its index, which is usually at the end: "
            "the file is cut off, or its recording was not closed"
        )
    start = data[:256]
    if _is_base64(start):
        return "what looks like base64: send the bytes themselves"
    if is_text(start):
        shown = " ".join(start.decode("utf-8-sig", "replace").split())[:SHOWN_CHARS]
        return f"text that begins with {shown!r}"
    return f"bytes that begin with {data[:SHOWN_BYTES].hex(' ')}"


def breaks_off(data: bytes) -> bool:
    """Return whether an Ogg or RIFF file lacks its end; False for other kinds."""
    if data.startswith(b"OggS"):
        return not _is_ended_ogg(data)
    if data.startswith(b"RIFF"):
        stated = int.from_bytes(data[4:8], "little")
        return len(data) - 8 < stated < UNKNOWN_LENGTH
    return False


def _is_ended_ogg(data: bytes) -> bool:
    """Return whether the last page is whole and has the flag of the last page."""
    page = data.rfind(b"OggS")
    header = data[page : page + 27]
    if len(header) < 27:
        return False
    sizes = data[page + 27 : page + 27 + header[26]]
    is_whole = len(data) >= page + 27 + header[26] + sum(sizes)
    return is_whole and bool(header[5] & 4)


def _is_base64(start: bytes) -> bool:
    if re.match(rb"data:[\w/+.;=-]*;base64,", start):
        return True
    joined = b"".join(start.split())
    whole = joined[: len(joined) // 4 * 4]
    if len(whole) < MIN_BASE64_CHARS:
        return False
    try:
        return not is_text(base64.b64decode(whole, validate=True))
    except binascii.Error:
        return False
