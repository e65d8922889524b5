"""Recognise audio containers by their first bytes."""

import codecs
import io

from conch.wire.errors import AudioError

NUM_FIRST_BYTES = 4096
"""Bytes to look at: two frames of an mp3, whose longest has 1441 bytes."""
NUM_SURE_BYTES = 64
"""Bytes that distinguish a container, or text, from raw samples."""
_MAGIC = (
    (b"OggS", "ogg"),
    (b"fLaC", "flac"),
    (b"ID3", "mp3"),
    (b".snd", "au"),
    (b"caff", "caf"),
    (b"\x1aE\xdf\xa3", "matroska"),  # webm, mkv
)
"""First bytes of a container, and FFmpeg's name for it."""
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


def first_bytes(pipe: io.BufferedReader) -> bytes:
    """Return the bytes that distinguish a container from raw samples, as soon as they have come."""
    first = b""
    while (missing := num_first_bytes(first) - len(first)) > 0:
        if not (more := pipe.read(missing)):
            break
        first += more
    return first


def num_first_bytes(first: bytes) -> int:
    """Return how many bytes distinguish a container from raw samples, by the first ones so far."""
    return NUM_FIRST_BYTES if _is_sync(first) else NUM_SURE_BYTES


def named_container_of(first: bytes) -> str | None:
    """Return FFmpeg's name of the container that these first bytes name, 12 or more; else None."""
    for magic, container in _MAGIC:
        if first.startswith(magic):
            return container
    if first[:4] in (b"RIFF", b"RF64", b"FORM") and first[8:12] in _FORMS:
        return _FORMS[first[8:12]]
    return "mov" if first[4:8] == b"ftyp" else None


def container_of(first: bytes) -> str | None:
    """Return FFmpeg's name of the container with these first bytes, None for raw samples.

    Raises:
        AudioError: the bytes are text or another format without audio.
    """
    if container := named_container_of(first):
        return container
    for magic, kind in NOT_AUDIO.items():
        if first.startswith(magic):
            raise AudioError(f"{kind}, not audio")
    if is_text(first[:NUM_SURE_BYTES]):
        raise AudioError("text, not audio")
    return _mpeg(first)


def is_text(first: bytes) -> bool:
    """Return whether these bytes are all text, which is unlikely for 16-bit samples."""
    try:
        # The last character may be cut off.
        text = codecs.getincrementaldecoder("utf-8-sig")().decode(first)
    except UnicodeDecodeError:
        return False
    return bool(text) and all(char.isprintable() or char in "\t\n\r\f" for char in text)


def _is_sync(header: bytes) -> bool:
    """Return whether these bytes may begin an MPEG frame; samples from -8193 to -1 may look so."""
    return len(header) >= 6 and header[0] == 0xFF and header[1] & 0xE0 == 0xE0


def _mpeg(first: bytes) -> str | None:
    """Return the format of an mp3 or AAC stream: a second frame must begin where the first ends."""
    if not _is_sync(first):
        return None
    is_aac = first[1] & 0xF6 == 0xF0
    length = _aac_frame_bytes(first) if is_aac else _mp3_frame_bytes(first)
    second = first[length : length + 6]
    if not length or not _is_sync(second) or first[1] & 0xFE != second[1] & 0xFE:
        return None
    return "aac" if is_aac else "mp3"


def _aac_frame_bytes(header: bytes) -> int:
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
