"""The best path of a CTC output (Graves et al., 2006): the fastest search, and the poorest."""

import numpy as np
from numpy.typing import NDArray

from conch.decoding.hypothesis import CtcHypothesis
from conch.decoding.vocab import BLANK, CtcVocab


def best_path(log_probs: NDArray[np.float32], vocab: CtcVocab) -> CtcHypothesis:
    """Return the text of the most probable path, with the scores of that path alone.

    A beam of one finds the same text, except for ties and for paths that add up.

    Args:
        log_probs: float32 `[T, vocab]`, natural log.
        vocab: vocabulary of the acoustic model.
    """
    path = log_probs.argmax(1)
    best = log_probs[np.arange(len(path)), path]
    firsts = np.flatnonzero(np.diff(path, prepend=-1))  # the frames in which it goes on
    peaks = np.maximum.reduceat(best, firsts) if len(firsts) else best
    emits = path[firsts] != BLANK
    units = tuple(path[firsts][emits].tolist())
    score = float(best.sum(dtype=np.float64))
    return CtcHypothesis(
        text=vocab.text_of(units),
        am_score=score,
        lm_score=0.0,
        score=score,
        units=units,
        texts=tuple(vocab.texts[unit] for unit in units),
        frames=tuple(firsts[emits].tolist()),
        log_probs=tuple(peaks[emits].tolist()),
    )
