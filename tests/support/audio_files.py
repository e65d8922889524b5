"""Audio files in memory."""

import io
from typing import Any

import soundfile
from numpy.typing import NDArray


def audio_file(
    samples: NDArray[Any], rate: int, subtype: str | None = None, format: str = "WAV", **more: Any
) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, samples, rate, subtype, format=format, **more)
    return file.getvalue()
