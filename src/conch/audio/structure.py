"""Where a container ends, and whether its end is missing, by its structure alone.

FFmpeg reads what it finds and says neither. Formats: RIFF, RF64 and AIFF chunks (EBU Tech 3306),
ISO 14496-12 boxes, Ogg pages (RFC 3533), EBML elements (RFC 8794), Microsoft's ASF.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

At: TypeAlias = Callable[[int, int], bytes]
"""Returns the bytes at an offset, at most so many; fewer only at the end."""

UNKNOWN_SIZE = 0x7FF00000
"""Smallest size in a 32-bit header that means: until the end of the file."""
_UNKNOWN_SIZE_64 = 0x7FFFFFFF00000000
_MAX_PAGE = 27 + 255 + 255 * 255
"""Bytes of the longest page of Ogg."""
FIRST_PAGE, _LAST_PAGE = 2, 4
"""Flags of the first and of the last page of an Ogg stream."""
_MAX_HEADER = 2**16
"""Bytes in which the samples of a WAV begin; longer headers are read to the end."""
_FILE_PROPERTIES = bytes.fromhex("a1dcab8c47a9cf118ee400c00c205365")
"""GUID of the ASF object with the size of the file."""
_IS_BROADCAST = 1
_MAX_PARTS = 100_000
"""Chunks or boxes to walk over: an hour in fragments of 100 ms has as many."""


@dataclass(frozen=True, slots=True)
class Extent:
    """The bytes of a file that belong to its container."""

    end: int
    """Offset of the byte after the last one; the end of the file where the structure is open."""
    stated_share: float = 1.0
    """Bytes that the container says it has, divided by those that are there; 1 or more."""
    is_cut: bool = False
    """Whether its last bytes are missing."""


def extent_of(at: At, size: int, read_until: int) -> Extent:
    """Return the extent of the container at the beginning of `size` bytes."""
    head = at(0, 12)
    if head[:4] in (b"RIFF", b"RF64", b"FORM"):
        return _extent_of_chunks(at, size, read_until)
    if head[4:8] in (b"ftyp", b"moov", b"mdat", b"wide"):
        return _extent_of_boxes(at, size)
    if head[:4] == b"OggS":
        return _extent_of_pages(at, size, read_until)
    if head.startswith((b"FLV", b"TTA1", b"Crea")):
        return Extent(read_until)
    stated = _stated_size(at, head)
    # FFmpeg itself reads further mp3 files.
    ends = 0 < stated < size and not head.startswith((b"ID3", b"\xff"))
    return Extent(stated if ends else size, max(1.0, stated / size), is_cut=stated > size)


def _extent_of_chunks(at: At, size: int, read_until: int) -> Extent:
    order = "big" if at(0, 4) == b"FORM" else "little"
    offset = end = 12
    for _ in range(_MAX_PARTS):
        head = at(offset, 8)
        if len(head) < 8 or not is_name(head[:4]) or head[:4] in (b"RIFF", b"FORM"):
            break
        length = int.from_bytes(head[4:], order)  # type: ignore[arg-type]
        if head[:4] in (b"data", b"SSND", b"movi") or (head[:4] == b"LIST" and length > read_until):
            if at(0, 4) == b"RF64" and length >= UNKNOWN_SIZE:
                length = int.from_bytes(at(28, 8), "little")
            if length in (0, _UNKNOWN_SIZE_64) or length >= UNKNOWN_SIZE:
                return Extent(size)
            present = size - offset - 8
            if length > present:
                return Extent(size, length / max(1, present), is_cut=True)
        offset += 8 + length
        # Some writers leave out the byte that makes the length even.
        if length % 2 and not (is_name(at(offset, 4)) and at(offset, 1) != b"\0"):
            offset += 1
        if offset > size + 1:
            break
        end = offset
    else:
        return Extent(size)
    return Extent(min(size, max(end, read_until)))


def _extent_of_boxes(at: At, size: int) -> Extent:
    offset, has_media = 0, False
    for _ in range(_MAX_PARTS):
        head = at(offset, 16)
        if len(head) < 8 or not is_name(head[4:8]) or (has_media and head[4:8] == b"ftyp"):
            break
        length = int.from_bytes(head[:4], "big")
        if length == 1:
            length = int.from_bytes(head[8:], "big")
        if length == 0:
            return Extent(size)
        if length < 8:
            break
        has_media |= head[4:8] in (b"moov", b"mdat")
        if offset + length > size:
            return Extent(size, (offset + length) / size, is_cut=True)
        offset += length
    else:
        return Extent(size)
    return Extent(offset or size)


def end_of_data(at: At) -> int | None:
    """Return where the samples of a WAV end by its header; None if that says no length."""
    offset = 12
    while offset < _MAX_HEADER and len(head := at(offset, 8)) == 8 and is_name(head[:4]):
        length = int.from_bytes(head[4:], "little")
        offset += 8 + length
        if head[:4] == b"data":
            return offset if 0 < length < UNKNOWN_SIZE else None
        offset += length % 2
    return None


def end_of_first_pages(at: At) -> int:
    """Return where the first pages of the streams of an Ogg end, of which it may have several."""
    offset = 0
    # Of a stream no more bytes than must have come.
    while (head := at(offset, 27)).startswith(b"OggS") and len(head) == 27 and head[5] & FIRST_PAGE:
        offset += 27 + head[26] + sum(at(offset + 27, head[26]))
    return offset


def names_of_boxes(at: At, size: int) -> list[str]:
    """Return the names of the outer boxes of an MP4, up to the first that is not there whole."""
    names, offset = list[str](), 0
    while len(head := at(offset, 16)) >= 8 and is_name(head[4:8]) and len(names) < _MAX_PARTS:
        length = int.from_bytes(head[8:] if head[:4] == b"\0\0\0\1" else head[:4], "big")
        if length < 8 or offset + length > size:
            break
        names.append(head[4:8].decode("latin-1"))
        offset += length
    return names


def _extent_of_pages(at: At, size: int, read_until: int) -> Extent:
    first = max(0, read_until - _MAX_PAGE)
    data = at(first, min(2 * _MAX_PAGE, size - first))
    offset, is_ended = data.find(b"OggS"), False
    while offset >= 0 and data.startswith(b"OggS", offset):
        header = data[offset : offset + 27]
        sizes = data[offset + 27 : offset + 27 + header[26]] if len(header) == 27 else b""
        offset += 27 + len(sizes) + sum(sizes)
        is_ended = len(header) == 27 and offset <= len(data) and bool(header[5] & _LAST_PAGE)
    return Extent(min(size, first + offset), is_cut=not is_ended)


def _stated_size(at: At, head: bytes) -> int:
    """Return the bytes that the header of another container states, 0 if it states none."""
    if head.startswith(b"\x1aE\xdf\xa3"):
        after, length = _element(at, 4)
        if at(after + length, 4) == b"\x18S\x80g":  # its segment
            after, length = _element(at, after + length + 4)
            return after + length if length else 0
    elif head.startswith(b".snd"):
        start, length = int.from_bytes(head[4:8], "big"), int.from_bytes(head[8:], "big")
        return start + length if length < UNKNOWN_SIZE else 0
    elif head.startswith(b"riff"):
        length = int.from_bytes(at(16, 8), "little")
        return length if length < _UNKNOWN_SIZE_64 else 0
    elif head.startswith(b"caff"):
        return _stated_by_caf(at)
    elif head.startswith(b"\x30\x26\xb2\x75"):
        objects = at(0, 8192)
        start = objects.find(_FILE_PROPERTIES)
        flags = objects[start + 88 : start + 92]
        if start >= 0 and flags and not flags[0] & _IS_BROADCAST:
            return int.from_bytes(objects[start + 40 : start + 48], "little")
    elif head.startswith((b"ID3", b"\xff")):
        return stated_by_xing(at)
    return 0


def _stated_by_caf(at: At) -> int:
    offset = 8
    while len(head := at(offset, 12)) == 12 and is_name(head[:4]) and head[:4] != b"caff":
        length = int.from_bytes(head[4:], "big")
        if length >= _UNKNOWN_SIZE_64:
            return 0
        offset += 12 + length
    return offset


def stated_by_xing(at: At) -> int:
    """Return the bytes that the first frame of an MP3 states, with its tag; 0 if it states none.

    LAME writes such a frame, named Xing or Info, for others to know the length of the file.
    """
    head = at(0, 10)
    sizes = head[6:10] if head.startswith(b"ID3") else b""
    tag = sum((byte & 0x7F) << 7 * index for index, byte in enumerate(reversed(sizes)))
    start = at(tag, 4096)
    xing = max(start.find(b"Xing"), start.find(b"Info"))
    if xing < 0 or not start[xing + 7 : xing + 8] or not start[xing + 7] & 2:
        return 0
    return tag + int.from_bytes(start[xing + 12 : xing + 16], "big")


def _element(at: At, offset: int) -> tuple[int, int]:
    """Return the end and the value of a size of EBML; the value is 0 if it is not known."""
    first = at(offset, 1)
    if not first or not first[0]:
        return offset + 1, 0
    width = 9 - first[0].bit_length()
    most = (1 << 7 * width) - 1
    value = int.from_bytes(at(offset, width), "big") & most
    return offset + width, 0 if value == most else value


def is_name(name: bytes) -> bool:
    """Return whether four bytes may name a chunk or a box."""
    return len(name) == 4 and all(32 <= byte < 127 or byte == 0xA9 for byte in name)
