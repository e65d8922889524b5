"""Recognise audio containers by their first bytes, and say what else a file holds."""

import base64
import binascii
import codecs
import io
import re

from conch.audio.structure import FIRST_PAGE, At, names_of_boxes
from conch.wire.errors import AudioError

NUM_FIRST_BYTES = 4096
"""Bytes to look at: three frames of an mp3, of which few have more than 1044 bytes."""
NUM_TEXT_BYTES = 64
"""Bytes that distinguish text from raw samples."""
NUM_NAMED_BYTES = 20
"""Bytes that name a container."""
_MAGIC = (
    (b"OggS", "ogg"),
    (b"fLaC", "flac"),
    (b"ID3", "mp3"),
    (b".snd", "au"),
    (b"caff", "caf"),
    (b"\x1aE\xdf\xa3", "matroska"),  # webm, mkv
    (b"#!AMR", "amr"),
    (b"FLV\1", "flv"),
    (b"wvpk", "wv"),
    (b"MAC ", "ape"),
    (b"TTA1", "tta"),
    (b"riff.\x91\xcf\x11", "w64"),
    (b"\x30&\xb2u\x8ef\xcf\x11", "asf"),
    (b"NIST_1A", "nistsphere"),
    (b"Creative Voice File", "voc"),
    (b"\0\0\1\xba", "mpeg"),
    (b"\x7f\xfe\x80\1", "dts"),
)
"""First bytes of a container, and FFmpeg's name for it."""
_BOXES = (b"ftyp", b"moov", b"mdat", b"wide", b"free", b"skip")
"""Names of boxes with which an MP4 or a QuickTime file begins."""
_FRAGMENT_BOXES = (b"moof", b"styp", b"sidx", b"emsg")
"""Names of boxes with which a later piece of an MP4 begins."""
_CLUSTER = b"\x1f\x43\xb6\x75"
"""First bytes of a later piece of a webm."""
_SYNCS = ((b"\x0b\x77", "ac3"), (b"\x47", "mpegts"))
"""First bytes of each frame, and FFmpeg's name for a stream of them."""
NOT_AUDIO = {
    b"%PDF": "a PDF",
    b"PK\x03\x04": "a zip archive (or an office document)",
    b"\x1f\x8b\x08": "a gzip archive",
    b"7z\xbc\xaf": "a 7z archive",
    b"Rar!": "a RAR archive",
    b"\x89PNG": "a PNG picture",
    b"\xff\xd8\xff\xe0": "a JPEG picture",
    b"\xff\xd8\xff\xe1": "a JPEG picture",
    b"\xff\xd8\xff\xdb": "a JPEG picture",
    b"\xff\xd8\xff\xee": "a JPEG picture",
    b"GIF8": "a GIF picture",
    b"MThd": "MIDI notes",
    b"\x7fELF": "a program",
}
"""First bytes of a format without audio, and its name."""
_FORMS = {b"WAVE": "wav", b"AVI ": "avi", b"AIFF": "aiff", b"AIFC": "aiff"}
"""FFmpeg's names for the contents of the containers RIFF, RF64 and FORM."""
_BITRATES = (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320)
_BITRATES_LOW = (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160)
"""Bit rates of an mp3's frames below 32 kHz, in kbit/s; those above are for 32 kHz and more."""

SHOWN_CHARS = 32
SHOWN_BYTES = 8
MIN_BASE64_CHARS = 64
"""Fewer characters could be a word."""


def first_bytes(pipe: io.BufferedReader) -> bytes:
    """Return the bytes that distinguish a container from raw samples, as soon as they have come."""
    first = b""
    while (missing := num_first_bytes(first) - len(first)) > 0:
        if not (more := pipe.read1(missing)):
            break
        first += more
    return first


def num_first_bytes(first: bytes) -> int:
    """Return how many bytes distinguish a container from raw samples, by the first ones so far."""
    is_sure = len(first) >= NUM_NAMED_BYTES and (_named(first) or missing_beginning(first))
    return NUM_NAMED_BYTES if is_sure else NUM_FIRST_BYTES


def named_container_of(first: bytes) -> str | None:
    """Return FFmpeg's name of the container that the first NUM_NAMED_BYTES name; else None.

    Raise an AudioError for a later piece of a container.
    """
    if what := missing_beginning(first):
        raise AudioError(f"{what}: send it from its beginning")
    return _named(first)


def missing_beginning(first: bytes) -> str | None:
    """Return what begins with these bytes if it is a later piece of a container, else None."""
    if first.startswith(_CLUSTER):
        return "a piece of a webm without its header"
    if first[4:8] in _FRAGMENT_BOXES:
        return "a fragment of an MP4 without its header"
    if first.startswith(b"OggS") and len(first) > 5 and not first[5] & FIRST_PAGE:
        return "the middle of an Ogg stream, without its headers"
    return None


def _named(first: bytes) -> str | None:
    for magic, container in _MAGIC:
        if first.startswith(magic):
            return container
    if first[:4] in (b"RIFF", b"RF64", b"FORM") and first[8:12] in _FORMS:
        return _FORMS[first[8:12]]
    return "mov" if first[4:8] in _BOXES else None


def container_of(first: bytes) -> str | None:
    """Return FFmpeg's name of the container with these first bytes, None for raw samples.

    Raise an AudioError for text, another format without audio, or a later piece of a container.
    """
    if container := named_container_of(first):
        return container
    for magic, content in NOT_AUDIO.items():
        if first.startswith(magic):
            raise AudioError(f"{content}, not audio")
    if is_text(first[:NUM_TEXT_BYTES]):
        raise AudioError("text, not audio")
    for sync, container in _SYNCS:
        if first.startswith(sync) and _repeats(first, sync):
            return container
    return _mpeg(first)


def _repeats(first: bytes, sync: bytes) -> bool:
    length = 188 if sync == b"\x47" else first.find(sync, 64)
    starts = (length, 2 * length)
    return length > 0 and all(first.startswith(sync, start) for start in starts)


def is_text(first: bytes) -> bool:
    """Return whether these bytes are all text, which is unlikely for 16-bit samples."""
    try:
        # The last character may be cut off.
        text = codecs.getincrementaldecoder("utf-8-sig")().decode(first)
    except UnicodeDecodeError:
        return False
    return bool(text) and all(char.isprintable() or char in "\t\n\r\f" for char in text)


def _mpeg(first: bytes) -> str | None:
    """Return the format of an mp3 or AAC stream, which may begin in the middle of a frame.

    A second frame must begin where the first ends; in the middle of the bytes also a third one.
    """
    offset = 0
    while offset >= 0:
        if _follow(first, offset, 3 if offset else 2):
            return "aac" if _is_aac(first[offset : offset + 6]) else "mp3"
        offset = first.find(b"\xff", offset + 1)
    return None


def _follow(first: bytes, offset: int, frames: int) -> bool:
    """Return whether frames of one kind, at least so many, lie one behind the other."""
    formats = set()
    for _ in range(frames):
        header = first[offset : offset + 6]
        # Samples from -8193 to -1 may look so.
        if len(header) < 6 or header[0] != 0xFF or header[1] < 0xE0:
            return False
        is_aac = _is_aac(header)
        length = _aac_frame_bytes(header) if is_aac else _mp3_frame_bytes(header)
        # Version and layer, then the rate; of AAC also the profile.
        formats.add((header[1] & 0xFE, header[2] & (0xFC if is_aac else 0x0C)))
        if not length or len(formats) > 1:
            return False
        offset += length
    return True


def _is_aac(header: bytes) -> bool:
    return header[1] & 0xF6 == 0xF0


def _aac_frame_bytes(header: bytes) -> int:
    """Return the length of an ADTS frame; 0 for another profile than LC, which all encoders say."""
    if header[2] >> 6 != 1 or (header[2] >> 2 & 15) > 12:
        return 0
    return (header[3] & 3) << 11 | header[4] << 3 | header[5] >> 5


def _mp3_frame_bytes(header: bytes) -> int:
    """Return the length of an MPEG layer III frame, 0 without a valid header."""
    version, layer = header[1] >> 3 & 3, header[1] >> 1 & 3
    bitrate, rate = header[2] >> 4, header[2] >> 2 & 3
    if version == 1 or layer != 1 or bitrate in (0, 15) or rate == 3:
        return 0
    is_first_version = version == 3
    sample_rate = (44_100, 48_000, 32_000)[rate] // {3: 1, 2: 2, 0: 4}[version]
    kbits = (_BITRATES if is_first_version else _BITRATES_LOW)[bitrate]
    return (144 if is_first_version else 72) * kbits * 1000 // sample_rate + (header[2] >> 1 & 1)


def description_of(at: At, size: int) -> str:
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
