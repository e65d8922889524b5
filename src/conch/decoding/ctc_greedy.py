"""The best path of a CTC output (Graves et al., 2006), its text and when each word was said."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from conch.result import Word

FloatArray = NDArray[np.float32]
IntArray = NDArray[np.int64]

BLANK = 0
"""The first unit of every vocabulary."""


@dataclass(frozen=True, slots=True)
class Emissions:
    """The units that a path writes, one entry each, in order of time."""

    units: IntArray
    """int64 `[N]`."""
    first_frames: IntArray
    """int64 `[N]`: where the path enters the unit …"""
    last_frames: IntArray
    """int64 `[N]`: … and the last frame before it leaves."""
    log_probs: FloatArray
    """float32 `[N]`: the unit's at the best of its frames."""


def best_path(log_probs: FloatArray) -> tuple[Emissions, float]:
    """Return what the most probable path writes, and the path's log probability.

    Args:
        log_probs: float32 `[T, vocab]`, natural log.
    """
    path = log_probs.argmax(1)
    best = log_probs[np.arange(len(path)), path]
    firsts = np.flatnonzero(np.diff(path, prepend=-1))
    lasts = np.append(firsts[1:], len(path))[: len(firsts)] - 1
    peaks = np.maximum.reduceat(best, firsts) if len(firsts) else best
    kept = path[firsts] != BLANK
    emissions = Emissions(path[firsts][kept], firsts[kept], lasts[kept], peaks[kept])
    return emissions, float(best.sum(dtype=np.float64))


def words_of(emissions: Emissions, vocab: Sequence[str], frame_s: float) -> tuple[Word, ...]:
    """Return the words that units spell, with times from the start of the frames.

    A unit that begins with a space begins a word. A word lasts from the first frame of its first
    letter to the last frame of its last; its confidence is the geometric mean of its letters'
    probabilities, each at the best of its frames.

    Args:
        emissions: of `best_path`.
        vocab: the text of each unit.
        frame_s: seconds of a frame.
    """
    words: list[Word] = []
    letters: list[int] = []

    def close() -> None:
        if letters:
            text = "".join(vocab[emissions.units[item]] for item in letters).strip()
            start = float(emissions.first_frames[letters[0]]) * frame_s
            end = float(emissions.last_frames[letters[-1]] + 1) * frame_s
            confidence = float(np.exp(emissions.log_probs[letters].mean(dtype=np.float64)))
            words.append(Word(text, round(start, 3), round(end, 3), round(confidence, 4)))
            letters.clear()

    for index, unit in enumerate(emissions.units):
        if vocab[unit].startswith(" "):
            close()
        if vocab[unit].strip():
            letters.append(index)
    close()
    return tuple(words)
