"""Write samples as the bytes of a file, piece by piece, and the header of a WAV file."""

import io
import struct
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

_OPEN_SIZE = 0xFFFFFFFF
"""Size in the header of a file whose end is not known."""
Samples = NDArray[np.float32]
CONTENT_TYPES = {
    "pcm_f32": "audio/pcm",
    "pcm_s16": "audio/pcm",
    "wav": "audio/wav",
    "mp3": "audio/mpeg",
    "opus": "audio/ogg",
    "flac": "audio/flac",
    "aac": "audio/aac",
}
G711_TYPES = {
    "mulaw": "audio/mulaw",
    "alaw": "audio/alaw",
    **dict.fromkeys(("wav_mulaw", "wav_alaw"), "audio/wav"),
}
"""Media types of the formats of telephones, which the gateway alone makes."""
_CODECS: dict[str, tuple[str, str, str, int | None]] = {
    "mp3": ("mp3", "libmp3lame", "fltp", 64_000),
    "opus": ("ogg", "libopus", "flt", 32_000),
    "flac": ("flac", "flac", "s16", None),
    "aac": ("adts", "aac", "fltp", 64_000),
    **{name: (name, f"pcm_{name}", "s16", None) for name in ("mulaw", "alaw")},
    **{f"wav_{name}": ("wav", f"pcm_{name}", "s16", None) for name in ("mulaw", "alaw")},
}
"""Container, codec, format of its samples, and bits per second."""
FITTED_COMMENT = "synthetic speech by a voice that is fitted to recordings of a person"
_PAGE_US = "100000"
"""Longest page of Ogg in microseconds: FFmpeg's own is a second, which a listener would wait."""


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


class Encoder:
    """Encodes the samples of one audio; `write` may return bytes later, and `finish` the rest."""

    def __init__(self, format: str, rate: int, made_rate: int, *, is_fitted: bool = False) -> None:
        """Encode samples of `made_rate` Hz at `rate` Hz, in one of CONTENT_TYPES or G711_TYPES.

        MP3, Opus and FLAC say in a comment if the voice imitates a person.
        """
        self._comment = FITTED_COMMENT if is_fitted else ""
        self._resampler: Any = None
        if rate != made_rate:
            import soxr

            self._resampler = soxr.ResampleStream(made_rate, rate, 1, dtype="float32")
        self._format, self._rate = format, rate
        self._head = wav_header(rate) if format == "wav" else b""
        self._sink = io.BytesIO()
        self._container: Any = None
        if format in _CODECS:
            self._open()

    @property
    def has_codec(self) -> bool:
        """Whether the format compresses, which is work for a thread."""
        return self._format in _CODECS

    def resampled(self, samples: Samples, *, is_last: bool = False) -> Samples:
        """Return the samples at the rate of the audio; some of them come with later ones."""
        if self._resampler is None:
            return samples
        converted: Samples = self._resampler.resample_chunk(samples, last=is_last)
        return converted

    def write(self, samples: Samples) -> bytes:
        return self._written(self.resampled(samples))

    def finish(self) -> bytes:
        rest = self._written(self.resampled(np.zeros(0, np.float32), is_last=True))
        if self._container is None:
            return rest
        for packet in self._stream.encode(None):
            self._container.mux(packet)
        self._container.close()
        return rest + self._taken()

    def _open(self) -> None:
        import av  # where it is needed: PCM does without

        container, codec, self._layout, bits = _CODECS[self._format]
        options = {"page_duration": _PAGE_US} if container == "ogg" else {}
        file = SimpleNamespace(write=self._sink.write)  # FFmpeg can only append to it
        self._container = av.open(file, "w", format=container, options=options)
        if self._comment:
            self._container.metadata["comment"] = self._comment
        self._stream: Any = self._container.add_stream(codec, rate=self._rate, layout="mono")
        if bits:
            self._stream.bit_rate = bits
        self._frame = av.AudioFrame
        self._time = 0

    def _written(self, samples: Samples) -> bytes:
        if self._format == "pcm_f32":
            return samples.tobytes()
        head, self._head = self._head, b""
        if self._container is None:
            return head + pcm16(samples).tobytes()
        if len(samples):
            made = pcm16(samples) if self._layout == "s16" else samples
            frame = self._frame.from_ndarray(made[np.newaxis], self._layout, "mono")
            frame.sample_rate, frame.pts = self._rate, self._time
            self._time += len(samples)
            for packet in self._stream.encode(frame):
                self._container.mux(packet)
        return self._taken()

    def _taken(self) -> bytes:
        data = self._sink.getvalue()
        self._sink.seek(0)
        self._sink.truncate()
        return data


def pcm16(samples: Samples) -> NDArray[np.int16]:
    integers: NDArray[np.int16] = np.rint(np.clip(samples, -1, 1) * 32_767).astype("<i2")
    return integers
