"""Utterances ready to send: files read and decoded before a measurement."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from numpy.typing import NDArray

from conch.bench.manifest import Utterance
from conch.bench.progress import progress
from conch.bench.recordings import decode

Send = Literal["waveform", "file"]
"""Whether requests carry samples, or the file for the server to decode."""


@dataclass(frozen=True, slots=True)
class Sample:
    """An utterance ready to send."""

    utterance: Utterance
    audio: NDArray[Any] | bytes
    sample_rate: int
    """Hz."""
    duration_s: float


def load_samples(utterances: Sequence[Utterance], send: Send) -> list[Sample]:
    """Read and decode the recordings.

    Raises:
        BenchError: a file is missing or not audio.
    """
    samples = []
    with progress("reading audio", len(utterances)) as bar:
        for utterance in utterances:
            recording = decode(utterance.path)
            audio = recording.waveform if send == "waveform" else utterance.path.read_bytes()
            samples.append(Sample(utterance, audio, recording.sample_rate, recording.duration_s))
            bar.update()
    return samples
