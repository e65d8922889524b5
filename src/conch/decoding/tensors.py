"""The tensors of the decoders that search: frames of an encoder, and hypotheses."""

import math
from collections.abc import Sequence

import numpy as np

from conch.component import FloatArray, Outputs, Row, bytes_array
from conch.decoding.hypothesis import CtcHypothesis
from conch.wire.errors import InvalidRequestError
from conch.wire.limits import MAX_STEP_S


def checked_frames(row: Row, name: str, width: int, frame_s: float) -> FloatArray:
    """Return a row's frames, float32 `[T, width]`, of its inputs `name` and `name_lens`."""
    length = int(row.inputs[f"{name}_lens"].item())
    most = math.ceil(MAX_STEP_S / frame_s)
    if not 0 <= length <= most:
        raise InvalidRequestError(
            f"{name}_lens takes 0 to {most} frames, those of {MAX_STEP_S:g} s; sent: {length}"
        )
    frames = row.inputs[name][:length]
    if length == 0:
        return np.zeros((0, width), np.float32)
    if frames.shape != (length, width):
        raise InvalidRequestError(
            f"{name} takes [frames, {width}] with at least {name}_lens frames; "
            f"sent: {list(row.inputs[name].shape)} and {length}"
        )
    if np.isnan(frames).any() or np.isposinf(frames).any():
        raise InvalidRequestError(f"{name} holds values that are not numbers below infinity")
    return frames


def outputs_of(found: Sequence[CtcHypothesis], frame_s: float) -> Outputs:
    """Return hypotheses as tensors; a frame has `frame_s` seconds."""
    words = [word for item in found for word in item.words]
    starts = np.array([word.start_frame for word in words]) * frame_s
    ends = np.array([word.end_frame for word in words]) * frame_s
    return {
        "hypotheses": bytes_array([item.text for item in found]),
        "scores": np.array([item.score for item in found], np.float32),
        "am_scores": np.array([item.am_score for item in found], np.float32),
        "lm_scores": np.array([item.lm_score for item in found], np.float32),
        "num_words": np.array([len(item.words) for item in found], np.int32),
        "words": bytes_array([word.text for word in words]),
        "word_starts": starts.astype(np.float32),
        "word_ends": ends.astype(np.float32),
        "word_confidences": np.array([word.confidence for word in words], np.float32),
    }
