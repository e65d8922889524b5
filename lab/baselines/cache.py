"""What the baseline has understood before: it is ten times slower to ask than to remember.

The file is JSON, by the SHA-256 of what shapes a text: the samples, the baseline's options and its
version. Latencies are kept beside the texts; they are those of the machine that measured them.
"""

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from conch.bench.machine import versions
from conch.bench.recordings import decode
from conch.wire.errors import BenchError
from lab.baselines import faster_whisper


@dataclass(frozen=True, slots=True)
class BaselineResult:
    """What the baseline makes of one recording."""

    text: str
    latency_s: float


@dataclass(frozen=True, slots=True)
class BaselineResults:
    """What the baseline makes of the recordings of a job."""

    results: tuple[BaselineResult, ...]
    """In the order of the job."""
    cached: int
    """How many of them are remembered, and not measured now."""


class BaselineCache:
    """Texts and latencies of recordings, in a file or, without one, nowhere."""

    def __init__(self, file: Path | None = None) -> None:
        """Read the file if it exists.

        Raises:
            BenchError: it is no such file.
        """
        self._file = file
        self._known: dict[str, BaselineResult] = {}
        if file is not None and file.exists():
            self._known = _read(file)

    def recognize(
        self, job: faster_whisper.Job, on_answer: Callable[[], None] = lambda: None
    ) -> BaselineResults:
        """Return what the baseline makes of the job's files, asking only for what is not known.

        Args:
            job: files, and what shapes the texts.
            on_answer: called for each file.

        Raises:
            BenchError: a file cannot be decoded, the baseline failed, or the cache cannot be
                written.
        """
        keys = [_key(Path(path), job) for path in job.paths]
        asked = [path for path, key in zip(job.paths, keys, strict=True) if key not in self._known]
        cached = len(job.paths) - len(asked)
        for _ in range(cached):
            on_answer()
        found = dict(self._known)
        if asked:
            measured = faster_whisper.measure(replace(job, paths=tuple(asked)), on_answer)
            results = map(BaselineResult, measured.texts, measured.latencies_s)
            found |= zip((key for key in keys if key not in self._known), results, strict=True)
        if self._file is not None:
            self._known = found
            self._write(self._file)
        return BaselineResults(tuple(found[key] for key in keys), cached)

    def _write(self, file: Path) -> None:
        known = {key: asdict(item) for key, item in self._known.items()}
        # Not left half written by who interrupts a long measurement.
        new = file.with_name(f".{file.name}.new")
        try:
            new.write_text(json.dumps(known, indent=1, ensure_ascii=False), encoding="utf-8")
            new.replace(file)
        except OSError as error:
            raise BenchError(f"baseline cache {file} cannot be written: {error}") from None


def _read(file: Path) -> dict[str, BaselineResult]:
    try:
        known: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        return {key: BaselineResult(**item) for key, item in known.items()}
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise BenchError(f"{file} is no baseline cache: {error}") from None


def _key(path: Path, job: faster_whisper.Job) -> str:
    recording = decode(path)
    settings = {
        "sample_rate": recording.sample_rate,
        "version": versions().get(faster_whisper.NAME),
        **asdict(job.options),
    }
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    digest.update(recording.waveform.tobytes())
    return digest.hexdigest()
