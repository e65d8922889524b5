"""Which frame each token of a text was heard in, by the attention of the decoder."""

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from conch.component.arrays import FloatArray

_MEDIAN_FRAMES = 7


def warped(attention: FloatArray) -> list[tuple[int, int]]:
    """Return pairs of (token, frame) along the path of most attention, float32 `[tokens, frames]`.

    As in openai-whisper, attention is normalised over the tokens and smoothed over frames, and the
    path is found by dynamic time warping (Sakoe and Chiba, 1978,
    https://doi.org/10.1109/TASSP.1978.1163055).
    """
    mean, spread = attention.mean(axis=0), attention.std(axis=0)
    cost = -_smoothed((attention - mean) / (spread + 1e-9)).astype(float)
    totals = np.empty_like(cost)
    totals[0] = np.cumsum(cost[0])
    for token in range(1, len(cost)):
        # Steps within a token are sums, so the best frame to enter it is a running minimum.
        sums = np.cumsum(cost[token])
        above = totals[token - 1]
        entered = np.minimum(above, np.concatenate(([np.inf], above[:-1])))
        totals[token] = sums + np.minimum.accumulate(entered - (sums - cost[token]))
    return _path_back(totals)


def _smoothed(rows: FloatArray) -> FloatArray:
    """Return the medians around each frame; SciPy's filter would take 8 MB of memory."""
    side = _MEDIAN_FRAMES // 2
    windows = sliding_window_view(
        np.pad(rows, ((0, 0), (side, side)), "symmetric"), _MEDIAN_FRAMES, axis=1
    )
    found: FloatArray = np.partition(windows, side, axis=-1)[..., side]
    return found


def _path_back(totals: FloatArray) -> list[tuple[int, int]]:
    token, frame = totals.shape[0] - 1, totals.shape[1] - 1
    path = [(token, frame)]
    while token or frame:
        before = [
            (totals[token - 1, frame - 1], token - 1, frame - 1) if token and frame else None,
            (totals[token - 1, frame], token - 1, frame) if token else None,
            (totals[token, frame - 1], token, frame - 1) if frame else None,
        ]
        _, token, frame = min(item for item in before if item)
        path.append((token, frame))
    return path[::-1]
