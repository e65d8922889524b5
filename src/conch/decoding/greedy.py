"""The best path of a CTC output (Graves et al., 2006): the fastest search, and the poorest."""

import numpy as np

from conch.component.arrays import FloatArray
from conch.decoding.beam import BeamHypothesis
from conch.decoding.hypothesis import Piece, spelled_words, unit_runs
from conch.decoding.vocab import CtcVocab


def best_path(log_probs: FloatArray, vocab: CtcVocab) -> BeamHypothesis:
    """Return the text of the most probable path, with the score of that path alone.

    A beam of one finds the same text, except for ties and for paths that add up.

    Args:
        log_probs: float32 `[T, vocab]`, natural log.
        vocab: vocabulary of the acoustic model.
    """
    path = log_probs.argmax(1)
    best = log_probs[np.arange(len(path)), path]
    units, starts, _, peaks = (item.tolist() for item in unit_runs(path, best))
    score = float(best.sum(dtype=np.float64))
    return BeamHypothesis(
        text=vocab.text_of(units),
        words=spelled_words(
            Piece(vocab.texts[unit], start, start + 1, peak)
            for unit, start, peak in zip(units, starts, peaks, strict=True)
        ),
        score=score,
        am_score=score,
        lm_score=0.0,
        units=tuple(units),
        frames=tuple(starts),
    )
