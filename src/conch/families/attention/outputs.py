"""Outputs of an attention decoder; component_models/README.md has their tensors."""

from collections.abc import Sequence

import numpy as np

from conch.component import Array, bytes_array
from conch.wire.result import Word


def nbest_outputs(
    nbest: Sequence[tuple[str, float]], language: str, probability: float
) -> dict[str, Array]:
    """Return a decoder's outputs of texts with their scores, best first, and of their language.

    Args:
        probability: Its probability; NaN if it was not detected.
    """
    return {
        "hypotheses": bytes_array([text for text, _ in nbest]),
        "scores": np.array([score for _, score in nbest], dtype=np.float32),
        "language": bytes_array([language]),
        "language_probability": np.array([probability], dtype=np.float32),
    }


def words_outputs(words: Sequence[Word]) -> dict[str, Array]:
    """Return a decoder's outputs of words with their times and confidences."""
    return {
        "words": bytes_array([word.text for word in words]),
        "word_starts": np.array([word.start for word in words], dtype=np.float32),
        "word_ends": np.array([word.end for word in words], dtype=np.float32),
        "word_confidences": np.array([word.confidence for word in words], dtype=np.float32),
    }
