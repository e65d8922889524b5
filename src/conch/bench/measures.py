"""Measures: latency percentiles, word errors, real-time factor."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

import numpy as np

PERCENTILES = (50, 90, 95, 99)


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """Latencies in milliseconds; None each if no request was answered."""

    p50: float | None = None
    p90: float | None = None
    p95: float | None = None
    p99: float | None = None
    mean: float | None = None
    max: float | None = None

    @property
    def percentiles(self) -> tuple[float | None, ...]:
        """The values of `PERCENTILES`, in order."""
        return self.p50, self.p90, self.p95, self.p99


def latency_ms(latencies_s: Sequence[float]) -> Latency:
    """Return percentiles, mean and maximum.

    Percentiles are interpolated linearly between the two nearest latencies, as numpy does.
    """
    if not latencies_s:
        return Latency()
    milliseconds = np.asarray(latencies_s, dtype=np.float64) * 1000
    found = [*np.percentile(milliseconds, PERCENTILES), milliseconds.mean(), milliseconds.max()]
    names = [item.name for item in fields(Latency)]
    return Latency(**{k: round(float(v), 3) for k, v in zip(names, found, strict=True)})


def rtfx(audio_s: float, wall_s: float) -> float | None:
    """Return seconds of audio answered per second of wall clock; None without audio."""
    return round(audio_s / wall_s, 3) if audio_s and wall_s else None


def share_of(cpu_s: Mapping[str, float], names: Collection[str]) -> float | None:
    """Return the fraction of CPU that some processes have used; None if none was used.

    Args:
        cpu_s: CPU seconds by process.
        names: names of the processes.
    """
    total = sum(cpu_s.values())
    used = sum(seconds for name, seconds in cpu_s.items() if name in names)
    return round(used / total, 4) if total else None


@dataclass(frozen=True, slots=True)
class WordErrors:
    """The counts behind a word error rate."""

    words: int = 0
    """Words of the normalised reference."""
    substitutions: int = 0
    deletions: int = 0
    insertions: int = 0

    @property
    def wer(self) -> float | None:
        """The word error rate as a fraction; None without a reference."""
        errors = self.substitutions + self.deletions + self.insertions
        return round(errors / self.words, 6) if self.words else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy:
    """Word errors of a run, pooled over its utterances."""

    wer: float | None
    """Word error rate, a fraction; None without a reference."""
    wer_by_source: Mapping[str, float | None]
    reference_words: int
    substitutions: int
    deletions: int
    insertions: int


def word_errors(reference: str, hypothesis: str) -> WordErrors:
    """Return the word errors of one utterance, none for a reference without words.

    They are counted as by the Open ASR Leaderboard
    (https://github.com/huggingface/open_asr_leaderboard): Whisper's English normaliser is applied
    to both sides.
    """
    words = normalized(reference)
    if not words:
        return WordErrors()
    import jiwer

    found = jiwer.process_words(words, normalized(hypothesis))
    return WordErrors(len(words.split()), found.substitutions, found.deletions, found.insertions)


def pooled(errors: Iterable[WordErrors]) -> WordErrors:
    """Return the sums of all counts."""
    found = list(errors)
    return WordErrors(
        sum(item.words for item in found),
        sum(item.substitutions for item in found),
        sum(item.deletions for item in found),
        sum(item.insertions for item in found),
    )


def accuracy(errors: Sequence[tuple[str, WordErrors]]) -> Accuracy:
    """Return the accuracy of utterances, each given with its source; "" is no source."""
    by_source: dict[str, list[WordErrors]] = {}
    for source, item in errors:
        if source:
            by_source.setdefault(source, []).append(item)
    total = pooled(item for _, item in errors)
    return Accuracy(
        wer=total.wer,
        wer_by_source={source: pooled(items).wer for source, items in by_source.items()},
        reference_words=total.words,
        substitutions=total.substitutions,
        deletions=total.deletions,
        insertions=total.insertions,
    )


def word_error_rate(references: Sequence[str], hypotheses: Sequence[str]) -> float | None:
    """Return the WER as a fraction, all utterances pooled; None without a reference.

    Args:
        references: the words spoken; an empty text is an unknown reference.
        hypotheses: the recognised texts, in the same order.
    """
    pairs = zip(references, hypotheses, strict=True)
    return pooled(word_errors(*pair) for pair in pairs).wer


def normalized(text: str) -> str:
    """Return the text after Whisper's English normaliser (case, punctuation, numbers, spelling)."""
    if not text.strip():
        return ""
    result: str = _normalizer()(text).strip()
    return result


@cache
def _normalizer() -> Any:
    # An optional package whose tables take a moment to build: import it only for a WER.
    from whisper_normalizer.english import EnglishTextNormalizer

    return EnglishTextNormalizer()
