"""The header of a WAV file."""

import struct

_OPEN_SIZE = 0xFFFFFFFF
"""Size in the header of a file whose end is not known."""


def wav_header(
    rate: int, data_bytes: int | None = None, channels: int = 1, tag: int = 1, bits: int = 16
) -> bytes:
    """Return a header; None for a size that is not known. The tag says the format: 1 is PCM."""
    size = _OPEN_SIZE if data_bytes is None else data_bytes + 36
    data = _OPEN_SIZE if data_bytes is None else data_bytes
    block = channels * bits // 8
    form = tag, channels, rate, block * rate, block, bits
    parts = b"RIFF", size, b"WAVE", b"fmt ", 16, *form, b"data", data
    return struct.pack("<4sI4s4sIHHIIHH4sI", *parts)
