"""Tensors of an attention decoder, which component_models/README.md describes."""

from collections.abc import Sequence

import numpy as np

from conch.component import Array, FloatArray, Row, bytes_array
from conch.wire.errors import InvalidRequestError
from conch.wire.result import Word


def hidden_states(
    row: Row, model_size: int, frame_s: float, max_s: float
) -> tuple[FloatArray, int]:
    """Return the hidden states of a segment, and how many of them the segment fills."""
    hidden = row.inputs["encoder_out"].astype(np.float32, copy=False)
    if hidden.ndim != 2 or hidden.shape[1] != model_size:
        raise InvalidRequestError(
            f"input 'encoder_out' must have the shape [frames, {model_size}]: encoder and decoder "
            f"must come from one model; sent: {list(hidden.shape)}"
        )
    if len(hidden) > (most := round(max_s / frame_s)):
        raise InvalidRequestError(
            f"input 'encoder_out' takes at most {most} frames, those of {max_s:g} s; "
            f"sent: {len(hidden)}"
        )
    num_frames = int(row.inputs["encoder_out_lens"].ravel()[0])
    if not 0 < num_frames <= len(hidden):
        raise InvalidRequestError(
            f"input 'encoder_out_lens' must be from 1 to the {len(hidden)} frames of encoder_out; "
            f"sent: {num_frames}"
        )
    return hidden, num_frames


def nbest_outputs(
    nbest: Sequence[tuple[str, float]], language: str, probability: float
) -> dict[str, Array]:
    """Return a decoder's outputs, texts best first; `probability` is NaN for a given language."""
    return {
        "hypotheses": bytes_array([text for text, _ in nbest]),
        "scores": np.array([score for _, score in nbest], dtype=np.float32),
        "language": bytes_array([language]),
        "language_probability": np.array([probability], dtype=np.float32),
    }


def words_outputs(words: Sequence[Word]) -> dict[str, Array]:
    return {
        "words": bytes_array([word.text for word in words]),
        "word_starts": np.array([word.start for word in words], dtype=np.float32),
        "word_ends": np.array([word.end for word in words], dtype=np.float32),
        "word_confidences": np.array([word.confidence for word in words], dtype=np.float32),
    }
