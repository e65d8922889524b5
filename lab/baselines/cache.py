"""Cache of the baseline's texts: running it takes ten times as long as looking them up.

The file is JSON. A key is the SHA-256 of the samples, the baseline's options and its
version. Latencies are kept beside the texts, as the machine of that run measured them.
"""

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from conch.bench.machine import versions
from conch.scoring.recordings import decode
from conch.wire.errors import BenchError
from lab.baselines import faster_whisper


@dataclass(frozen=True, slots=True)
class BaselineAnswer:
    """The baseline's answer to one recording."""

    text: str
    latency_s: float


@dataclass(frozen=True, slots=True)
class BaselineAnswers:
    """The baseline's answers to the recordings of a job."""

    answers: tuple[BaselineAnswer, ...]
    """Answers in the order of the job."""
    cached: int
    """Number of answers from the cache."""


class BaselineCache:
    """Cache of texts and latencies in a file; without a file nothing is kept."""

    def __init__(self, file: Path | None = None) -> None:
        """Read the file if it exists.

        Raises:
            BenchError: it is not a cache.
        """
        self._file = file
        self._known: dict[str, BaselineAnswer] = {}
        if file is not None and file.exists():
            self._known = _read(file)

    def transcribe(
        self, job: faster_whisper.Job, on_answer: Callable[[], None] = lambda: None
    ) -> BaselineAnswers:
        """Return the baseline's answers to a job, which is run for unknown files only.

        Args:
            job: files and options.
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
            answers = map(BaselineAnswer, measured.texts, measured.latencies_s)
            found |= zip((key for key in keys if key not in self._known), answers, strict=True)
        if self._file is not None:
            self._known = found
            self._write(self._file)
        return BaselineAnswers(tuple(found[key] for key in keys), cached)

    def _write(self, file: Path) -> None:
        known = {key: asdict(answer) for key, answer in self._known.items()}
        # Replace the file at once: an interrupted write must not damage it.
        new = file.with_name(f".{file.name}.new")
        try:
            new.write_text(json.dumps(known, indent=1, ensure_ascii=False), encoding="utf-8")
            new.replace(file)
        except OSError as error:
            raise BenchError(f"baseline cache {file} cannot be written: {error}") from None


def _read(file: Path) -> dict[str, BaselineAnswer]:
    try:
        known: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        return {key: BaselineAnswer(**answer) for key, answer in known.items()}
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
