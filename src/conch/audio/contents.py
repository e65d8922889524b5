"""Say what a file holds that cannot be decoded, by its bytes."""

import base64
import binascii
import re

from conch.audio.sniffing import NOT_AUDIO, is_text, missing_beginning
from conch.audio.structure import At, names_of_boxes

SHOWN_CHARS = 32
SHOWN_BYTES = 8

MIN_BASE64_CHARS = 64
"""Fewer characters could be a word."""


def found_in(at: At, size: int) -> str:
    """Return a description of bytes from their beginning, for error messages."""
    start = at(0, 4096)
    if not start:
        return "nothing"
    if not any(start):
        return "zeros at the beginning" if any(at(0, 2**16)) else "zeros only"
    for signature, name in NOT_AUDIO.items():
        if start.startswith(signature):
            return name
    if start[4:8] in (b"ftyp", b"wide", b"mdat"):
        if "moov" in names_of_boxes(at, size):
            return "an MP4 whose index names no audio that is there"
        return (
            "an MP4 without its whole index, which is usually at the end: "
            "the file is cut off, or its recording was not closed"
        )
    if start[:4] in (b"RIFF", b"RF64") and start[8:12] == b"WAVE":
        return "a WAV without samples"
    if what := missing_beginning(start):
        return what
    start = start[:256]
    if _is_base64(start):
        return "what looks like base64: send the bytes themselves"
    if is_text(start):
        shown = " ".join(start.decode("utf-8-sig", "replace").split())[:SHOWN_CHARS]
        return f"text that begins with {shown!r}"
    return f"bytes that begin with {start[:SHOWN_BYTES].hex(' ')}"


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
