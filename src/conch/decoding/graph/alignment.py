"""From a path of units, one a frame, to words with times."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conch.families.ctc import BLANK


@dataclass(frozen=True, slots=True)
class AlignedWord:
    """A word and the frames that it was read from."""

    text: str
    start_frame: int
    """Of its first unit."""
    end_frame: int
    """After that of its last unit."""
    confidence: float
    """Geometric mean of its units' probabilities, each at its best frame; in (0, 1]."""


@dataclass(frozen=True, slots=True)
class UnitRun:
    """What one word was read from."""

    frames: tuple[tuple[int, int], ...]
    """Of each unit: its first frame and the one after its last."""
    text: str


def unit_runs(units: NDArray[np.int64], vocab: Sequence[str]) -> list[UnitRun]:
    """Return what the units of a path, int64 `[T]`, spell between spaces.

    A space alone is part of no run: it sounds like nothing.
    """
    runs: list[list[tuple[int, int, int]]] = [[]]
    previous = BLANK
    for frame, unit in enumerate(units.tolist()):
        text = vocab[unit]
        if unit == previous and text.strip():
            unit, start, _ = runs[-1].pop()
            runs[-1].append((unit, start, frame + 1))
        elif unit != previous:
            if text.startswith(" "):
                runs.append([])
            if text.strip():
                runs[-1].append((unit, frame, frame + 1))
        previous = unit
    return [
        UnitRun(
            tuple((start, end) for _, start, end in run),
            "".join(vocab[unit] for unit, _, _ in run).strip(),
        )
        for run in runs
        if run
    ]


def aligned_words(
    texts: Sequence[str],
    runs: Sequence[UnitRun],
    path: NDArray[np.floating[Any]],
) -> tuple[AlignedWord, ...]:
    """Return words with times and confidences.

    Args:
        texts: the words as they are to be shown.
        runs: what they were read from, one each; a last one without a word is shown as it is.
        path: float `[T]`: log probability of the unit in each frame.
    """
    found = []
    for index, run in enumerate(runs):
        text = texts[index] if index < len(texts) else run.text
        best = [float(path[start:end].max()) for start, end in run.frames]
        confidence = math.exp(sum(best) / len(best))
        found.append(AlignedWord(text, run.frames[0][0], run.frames[-1][1], min(1.0, confidence)))
    return tuple(found)
