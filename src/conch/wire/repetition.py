"""A sign that a text repeats itself."""

import zlib


def compression_ratio(text: str) -> float:
    """Return the compression ratio of a text by zlib: above 2.4, the text repeats itself."""
    data = text.encode()
    return len(data) / len(zlib.compress(data))
