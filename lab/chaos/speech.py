"""The speech that a campaign sends, and files of it in every container."""

import io
from collections.abc import Mapping
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import soundfile
from numpy.typing import NDArray

from conch.cli.demo import SPEECH
from lab.waveforms import audio_file

RATE = 16_000
SECONDS = 3.2
"""Length of the honest recording: a line of verse."""
LIBSNDFILE = {"wav": ("WAV", "PCM_16"), "flac": ("FLAC", "PCM_16"), "ogg": ("OGG", "VORBIS")}
FFMPEG = {
    "mp3": ("mp3", "libmp3lame", 48_000),
    "webm": ("webm", "libopus", 48_000),
    "mp4": ("mp4", "aac", 48_000),
    "mkv": ("matroska", "flac", 48_000),
    "aac": ("adts", "aac", 48_000),
    "wma": ("asf", "wmav2", 44_100),
    "amr": ("amr", "libopencore_amrnb", 8_000),
    "caf": ("caf", "alac", 48_000),
    "flv": ("flv", "aac", 44_100),
    "mpeg-ts": ("mpegts", "aac", 48_000),
    "avi": ("avi", "mp3", 48_000),
    "ac3": ("ac3", "ac3", 48_000),
}
"""FFmpeg's names of container and codec, and Hz, by the names of further files."""


@cache
def speech() -> NDArray[np.float32]:
    """Return the recording, FP32 [samples] at 16 kHz."""
    samples, rate = soundfile.read(SPEECH, dtype="float32", frames=round(SECONDS * RATE))
    assert rate == RATE
    recording: NDArray[np.float32] = samples
    return recording


@cache
def files() -> Mapping[str, bytes]:
    """Return a second of the recording as a file of each container, by its name."""
    second = speech()[:RATE]
    sound = {name: audio_file(second, RATE, *form) for name, form in LIBSNDFILE.items()}
    return sound | {name: _muxed(second, *form) for name, form in FFMPEG.items()}


def wav_file(waveform: NDArray[np.float32] | None = None) -> bytes:
    """Return a file of 16 bits: of the recording if no waveform is given."""
    return audio_file(speech() if waveform is None else waveform, RATE, subtype="PCM_16")


def _muxed(samples: NDArray[np.float32], container: str, codec: str, rate: int) -> bytes:
    import av

    file = io.BytesIO()
    with av.open(file, "w", format=container) as out:
        track: Any = out.add_stream(codec, rate=rate, layout="mono")
        track.bit_rate = 12_200 if container == "amr" else 64_000
        frame = av.AudioFrame.from_ndarray(samples[np.newaxis], "fltp", "mono")
        frame.rate, frame.pts, frame.time_base = RATE, 0, Fraction(1, RATE)
        for part in (frame, None):
            out.mux(track.encode(part))
    return file.getvalue()
