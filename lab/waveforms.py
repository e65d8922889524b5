"""Rows of manifests, and audio files as the waveforms that components take."""

import io
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import soundfile
import soxr
from numpy.typing import ArrayLike, NDArray

from conch.bench.samples import decode
from conch.component import SAMPLE_RATE
from conch.scoring.manifest import manifest_rows
from conch.wire.errors import BenchError


def rows_of(manifest: Path, required: Sequence[str]) -> Iterator[dict[str, str]]:
    """Return the rows of a manifest with all of its columns."""
    try:
        text = manifest.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BenchError(f"manifest {manifest} cannot be read: {error}") from None
    return manifest_rows(str(manifest), text, required)


def waveform_of(path: Path) -> NDArray[np.float32]:
    """Decode a file to mono samples at 16 kHz."""
    recording = decode(path)
    return resampled(recording.waveform, recording.sample_rate)


def resampled(waveform: NDArray[np.float32], sample_rate: int) -> NDArray[np.float32]:
    """Return mono samples resampled from a rate in Hz to 16 kHz."""
    if sample_rate == SAMPLE_RATE:
        return waveform
    converted: NDArray[np.float32] = soxr.resample(waveform, sample_rate, SAMPLE_RATE)
    return converted


def duration_s(path: Path) -> float:
    """Return the seconds of a file, by its header alone if possible."""
    try:
        return float(soundfile.info(path).duration)
    except (OSError, soundfile.LibsndfileError) as error:
        raise BenchError(f"{path} cannot be decoded: {error}") from None


def coded(waveform: NDArray[np.float32], sample_rate: int, subtype: str) -> NDArray[np.float32]:
    """Return samples within [-1, 1] as a codec of libsndfile leaves them."""
    file = io.BytesIO(audio_file(waveform, sample_rate, subtype=subtype))
    decoded: NDArray[np.float32] = soundfile.read(file, dtype="float32")[0]
    return decoded


def audio_file(
    samples: ArrayLike, sample_rate: int, format: str = "WAV", subtype: str | None = None
) -> bytes:
    """Return samples as a file, by libsndfile's names of formats."""
    file = io.BytesIO()
    soundfile.write(file, samples, sample_rate, format=format, subtype=subtype)
    return file.getvalue()
