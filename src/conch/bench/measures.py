"""The figures: latency percentiles, word error rate, real-time factor."""

from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

PERCENTILES = (50, 90, 95, 99)


def latency_ms(latencies_s: Sequence[float]) -> dict[str, float | None]:
    """Return p50, p90, p95, p99, mean and max in milliseconds; None each without a latency.

    Percentiles are interpolated linearly between the two nearest latencies, numpy's default.
    """
    names = [f"p{percentile}" for percentile in PERCENTILES]
    if not latencies_s:
        return dict.fromkeys([*names, "mean", "max"])
    milliseconds = np.asarray(latencies_s, dtype=np.float64) * 1000
    figures = dict(zip(names, np.percentile(milliseconds, PERCENTILES), strict=True))
    figures |= {"mean": milliseconds.mean(), "max": milliseconds.max()}
    return {name: round(float(value), 3) for name, value in figures.items()}


def rtfx(audio_s: float, wall_s: float) -> float | None:
    """Return seconds of audio answered per second of wall clock; None when nothing was."""
    return round(audio_s / wall_s, 3) if audio_s and wall_s else None


def share_of(cpu_s: Mapping[str, float], names: Collection[str]) -> float | None:
    """Return the fraction of CPU that some processes have used; None where none was used.

    Args:
        cpu_s: seconds by process.
        names: of the processes.
    """
    total = sum(cpu_s.values())
    used = sum(seconds for name, seconds in cpu_s.items() if name in names)
    return round(used / total, 4) if total else None


def word_error_rate(references: Sequence[str], hypotheses: Sequence[str]) -> float | None:
    """Return the WER as a fraction, all utterances pooled; None without a reference.

    Counted as the Open ASR Leaderboard does
    (https://github.com/huggingface/open_asr_leaderboard): both sides through Whisper's English
    normaliser, utterances whose normalised reference is empty left out, then all word errors
    over all reference words.

    Args:
        references: what was said; an empty one is an utterance nobody wrote down.
        hypotheses: what was understood, in the same order.
    """
    pairs = [
        (normalized(reference), normalized(hypothesis))
        for reference, hypothesis in zip(references, hypotheses, strict=True)
        if reference.strip()
    ]
    pairs = [pair for pair in pairs if pair[0]]
    if not pairs:
        return None
    import jiwer

    rate = jiwer.wer([pair[0] for pair in pairs], [pair[1] for pair in pairs])
    return round(float(rate), 6)


def normalized(text: str) -> str:
    """Return the text after Whisper's English normaliser (case, punctuation, numbers, spelling)."""
    result: str = _normalizer()(text).strip()
    return result


@cache
def _normalizer() -> Any:
    # An optional package, and building its tables takes a moment: only who asks for WER pays.
    from whisper_normalizer.english import EnglishTextNormalizer

    return EnglishTextNormalizer()
