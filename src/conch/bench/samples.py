"""The utterances of a benchmark: chosen, read and decoded before anything is measured."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import soundfile
from numpy.typing import NDArray

from conch.bench.load import Offer, progress
from conch.packaged import install
from conch.scoring import COMPARING, missing
from conch.scoring.error_rates import Metric
from conch.scoring.manifest import ManifestEntry, read_manifest, select
from conch.wire.errors import BenchError

Send = Literal["waveform", "file"]
"""Whether requests carry samples, or the file for the server to decode."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    manifest: Path
    split: str | None = None
    source: str | None = None
    limit: int | None = None
    """Largest number of utterances; see `conch.scoring.manifest.spread`."""

    def utterances(self) -> list[ManifestEntry]:
        return select(
            read_manifest(self.manifest), split=self.split, source=self.source, limit=self.limit
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerBenchmark(Choice):
    url: str | None = None
    """Address of a running server; None starts one for the benchmark."""
    weights: Mapping[str, str] = field(default_factory=dict)
    """Names or folders of the weights of a server that the benchmark starts, by kind; those of the
    other kinds are the defaults."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Headers of every request; no report repeats them."""
    options: Mapping[str, Any] = field(default_factory=dict)
    metric: Metric = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadBenchmark(ServerBenchmark):
    concurrency: Sequence[int] = (1,)
    rates: Sequence[float] = ()

    @property
    def offers(self) -> list[Offer]:
        closed = [Offer(concurrency=clients) for clients in self.concurrency]
        return closed + [Offer(rate=rate) for rate in self.rates]


@dataclass(frozen=True, slots=True)
class Sample:
    utterance: ManifestEntry
    audio: NDArray[Any] | bytes
    sample_rate: int
    duration_s: float


def comparable(utterances: list[ManifestEntry]) -> list[ManifestEntry]:
    """Return the utterances, without their texts where packages that compare texts are missing."""
    lacking = missing(*COMPARING)
    if not lacking or not any(utterance.text for utterance in utterances):
        return utterances
    print(
        f"conch bench: no word error rates without {' and '.join(lacking)}; to have them, "
        f"{install('bench')}",
        file=sys.stderr,
    )
    return [replace(utterance, text="") for utterance in utterances]


def load_samples(utterances: Sequence[ManifestEntry], send: Send) -> list[Sample]:
    samples = []
    with progress("reading audio", len(utterances)) as bar:
        for utterance in utterances:
            recording = decode(utterance.path)
            audio = recording.waveform if send == "waveform" else utterance.path.read_bytes()
            samples.append(Sample(utterance, audio, recording.sample_rate, recording.duration_s))
            bar.update()
    return samples


@dataclass(frozen=True, slots=True)
class DecodedFile:
    waveform: NDArray[np.float32]
    """Mono samples in [-1, 1]; channels are averaged."""
    sample_rate: int

    @property
    def duration_s(self) -> float:
        return len(self.waveform) / self.sample_rate


def decode(path: Path) -> DecodedFile:
    try:
        samples, sample_rate = soundfile.read(path, dtype="float32", always_2d=True)
    except (OSError, soundfile.LibsndfileError) as error:
        raise BenchError(f"{path} cannot be decoded: {error}") from None
    if not len(samples):
        raise BenchError(f"{path} holds no samples")
    return DecodedFile(np.ascontiguousarray(samples.mean(axis=1)), int(sample_rate))
