"""Hypotheses of a beam as hotwords are compared with them."""

import numpy as np

from conch.component.arrays import DoubleArray, FloatArray
from conch.decoding.beam.language import CtcLanguageModel
from conch.decoding.hotwords.placing import Reading
from conch.decoding.hypothesis import CtcHypothesis, spelled_words
from conch.decoding.options import CtcSearchOptions
from conch.families.ctc import BLANK


def reading_of_beam(
    item: CtcHypothesis,
    log_probs: FloatArray,
    options: CtcSearchOptions,
    model: CtcLanguageModel | None,
) -> Reading:
    """Return a hypothesis of a beam.

    Args:
        item: of `CtcSearch`, or the best path.
        log_probs: float32 `[T, V]`.
        options: of the search.
        model: the n-gram, for options that use it.
    """
    words = list(spelled_words(item))
    lm_scores = np.zeros(len(log_probs))
    if model is None or not options.language_model:
        aligned = tuple(word.aligned for word in words)
        return Reading(aligned, _path_scores(item, log_probs), lm_scores)
    found = model.word_log_probs([word.units for word in words])
    for word, log_prob in zip(words, found, strict=True):
        last = word.aligned.end_frame - 1
        lm_scores[last] += options.lm_weight * log_prob + options.word_bonus
    return Reading(
        tuple(word.aligned for word in words),
        _path_scores(item, log_probs),
        lm_scores,
        options.lm_weight,
        options.word_bonus,
    )


def _path_scores(item: CtcHypothesis, log_probs: FloatArray) -> DoubleArray:
    """Return the log probabilities of about the best path of a hypothesis, float64 `[T]`.

    A frame between two units is of the blank or of one of them. The beam does not know which.
    """
    units = np.array([BLANK, *item.units, BLANK])
    frames = np.arange(len(log_probs))
    before = np.searchsorted(item.frames, frames, side="right")
    scores = log_probs[:, BLANK].copy()
    for place in (before, before + 1):
        np.maximum(scores, log_probs[frames, units[place]], out=scores)
    peaks = np.array(item.frames, np.int64)
    scores[peaks] = log_probs[peaks, units[1:-1]]
    return scores.astype(np.float64)
