"""Bytes in texts: base64, as programs of every kind write it."""

import base64


def bytes_of(text: object, most: int | None = None) -> bytes:
    """Return the bytes of base64: padded or not, of either alphabet, alone or in a data URL.

    Raise a ValueError if it is none, or of more than `most` bytes.
    """
    if not isinstance(text, str):
        raise ValueError("it takes base64, or a data URL with base64")
    head, comma, data = text.rpartition(",")
    if comma and not (head.startswith("data:") and head.endswith(";base64")):
        raise ValueError("a data URL begins with data:, and ;base64 stands before the comma")
    data = data.rstrip("=")
    if most is not None and (size := len(data) * 3 // 4) > most:
        raise ValueError(f"it takes at most {most} bytes; sent: {size}")
    data = data.replace("-", "+").replace("_", "/") + "=" * (-len(data) % 4)
    try:
        return base64.b64decode(data, validate=True)
    except ValueError as error:
        raise ValueError(f"its base64 is damaged: {error}") from None
