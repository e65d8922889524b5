"""What Vosk says of a stretch of audio, as hypotheses."""

import json
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from conch.decoding.hypothesis import AlignedWord, CtcHypothesis

FRAME_S = 0.01
"""Seconds of the frames in which words are timed."""
_LEAST = 1e-6
"""Confidence of a word to which Vosk gives none."""


class Alternative(NamedTuple):
    """A text of a stretch of audio."""

    words: tuple[AlignedWord, ...] = ()
    score: float = 0.0

    @property
    def text(self) -> str:
        return " ".join(word.text for word in self.words)


def alternatives(result: str) -> list[Alternative]:
    """Return the texts of a result of Vosk with words, which is JSON, in its order."""
    found = json.loads(result)
    if "alternatives" not in found:
        words = [
            _word(item, item["conf"])
            for item in found.get("result", found.get("partial_result", ()))
        ]
        score = sum(math.log(word.confidence) for word in words)
        return [Alternative(tuple(words), score)]
    items = [(item.get("result", []), float(item["confidence"])) for item in found["alternatives"]]
    most = max(score for _, score in items)
    weights = [math.exp(score - most) for _, score in items]
    spoken = [{item["word"] for item in words} for words, _ in items]

    def share(word: str) -> float:
        having = (weight for weight, known in zip(weights, spoken, strict=True) if word in known)
        return sum(having) / sum(weights)

    return [
        Alternative(tuple(_word(item, share(item["word"])) for item in words), score)
        for words, score in items
    ]


def joined(parts: Sequence[Sequence[Alternative]], count: int) -> list[CtcHypothesis]:
    """Return the best hypotheses of stretches that follow each other, no text twice."""
    best = [Alternative()]
    for part in parts:
        grown = [
            Alternative(before.words + item.words, before.score + item.score)
            for before in best
            for item in part
        ]
        best = sorted(grown, key=lambda item: -item.score)[:count]
    found: dict[str, CtcHypothesis] = {}
    for item in best:
        hypothesis = CtcHypothesis(item.text, item.words, item.score, item.score, 0.0)
        found.setdefault(item.text, hypothesis)
    return [*found.values()]


def _word(item: dict[str, Any], confidence: float) -> AlignedWord:
    start = round(item["start"] / FRAME_S)
    end = max(start + 1, round(item["end"] / FRAME_S))
    return AlignedWord(item["word"], start, end, min(1.0, max(_LEAST, confidence)))
