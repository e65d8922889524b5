"""Stretches, windows and pieces of a segment for the networks; pure functions.

Speech probabilities are FP32 [frames] of 32 ms; positions are samples from the segment's start.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from conch.component import SAMPLE_RATE, VAD_FRAME_SAMPLES, Array, FloatArray
from conch.families.speakers import FRAME_FIELD, FRAME_SAMPLES
from conch.wire.turns import closed

LEAST_S = 0.25
"""Shortest stretch of speech, in seconds."""
PIECE_S, STEP_S = 1.5, 0.75
"""Length of the pieces that are embedded, and from one to the next."""
WINDOW_S = 3.0
"""Length of a window. In longer ones, segmentation more often takes two speakers for one."""
LEAST_VOTE = 0.1
"""Weight of a window at its edge."""
EMPTY_DB = -43.0
"""A band with so much less power than that of a telephone line is empty."""
_BIN_HZ = 50
_ABOVE_LINE_HZ, _IN_LINE_HZ = 4300, (300, 3400)

Span = tuple[int, int]


class Band(NamedTuple):
    """Thresholds of speech and density of windows, by the band of the audio."""

    sure: float
    """Probability that a stretch of speech reaches somewhere."""
    firm: float
    """Probability that it has everywhere."""
    least: float
    """Probability with the soft beginnings and ends of words, which tell little of a voice."""
    joined_s: float
    """Shorter pauses are speech."""
    step_s: float
    """Seconds from a window of a recording to the next."""
    most_skipped: int
    """Pieces between two that are embedded at first, while segmentation hears one voice."""
    alike: float
    """Cosine of two pieces below which there may be another voice between them."""


WIDE_BAND = Band(0.5, 0.35, 0.05, 0.1, step_s=1.5, most_skipped=4, alike=0.5)
LINE = Band(0.3, 0.2, 0.2, 0.3, step_s=1.0, most_skipped=2, alike=-1.0)
"""Over a telephone line the VAD is less sure of speech, segmentation of who speaks, and voices
sound alike."""


def spoken(speech_probs: Array, length: int, band: Band, *, is_firm: bool = False) -> list[Span]:
    """Return the stretches of speech of a segment of `length` samples, all of it or the firm."""
    least = band.firm if is_firm else band.least
    stretches = [
        (first * VAD_FRAME_SAMPLES, min(length, behind * VAD_FRAME_SAMPLES))
        for first, behind in runs_of(speech_probs >= least)
        if speech_probs[first:behind].max() >= band.sure
    ]
    joined = closed(stretches, round(band.joined_s * SAMPLE_RATE))
    return [span for span in joined if span[1] - span[0] >= LEAST_S * SAMPLE_RATE]


def pieces(spans: list[Span]) -> list[Span]:
    """Return pieces of PIECE_S that cover stretches of speech; a shorter stretch is one piece."""
    size, step = round(PIECE_S * SAMPLE_RATE), round(STEP_S * SAMPLE_RATE)
    parts = []
    for first, behind in spans:
        start = first
        while start + size < behind:
            parts.append((start, start + size))
            start += step
        # The last one ends with the speech.
        parts.append((max(first, behind - size), behind))
    return parts


def thinned(spans: Sequence[Span], active: Sequence[tuple[int, Array]], band: Band) -> list[int]:
    """Return the indices of the pieces to embed at first: fewer where one voice goes on.

    `active` has the first frame of each window, and who of its own speaks, bool `[frames, 3]`.
    """
    chosen: list[int] = []
    index = 0
    while index < len(spans):
        start = spans[index][0]
        chosen.append(index)
        most = start + round((band.most_skipped + 1) * STEP_S * SAMPLE_RATE)
        ahead = range(index + 2, min(index + 2 + band.most_skipped, len(spans)))
        fitting = [
            far
            for far in ahead
            if spans[far][0] <= most and _is_one_voice(active, start, spans[far][1])
        ]
        index = max(fitting, default=index + 1)
    return chosen


def between(sounds: Mapping[int, FloatArray], alike: float) -> list[int]:
    """Return the indices between embedded neighbours below `alike`: two voices may be there."""
    return [
        (first + second) // 2
        for first, second in pairwise(sorted(sounds))
        if second - first > 1 and sounds[first] @ sounds[second] < alike
    ]


def represented(indices: Sequence[int], count: int) -> list[int]:
    """Return how many of `count` pieces each embedded one stands for: those up to the next."""
    counts: list[int] = np.diff([*indices, count]).tolist()
    return counts


def _is_one_voice(active: Sequence[tuple[int, Array]], start: int, end: int) -> bool:
    """Return whether no window has two speakers in this span."""
    first, behind = max(0, frame_at(start)), frame_at(end)
    return all(
        speaks[max(0, first - begun) : max(0, behind - begun)].any(axis=0).sum() <= 1
        for begun, speaks in active
    )


def windows(length: int, step_s: float) -> list[Span]:
    """Return windows of at most WINDOW_S, several a frame, that begin at frames of segmentation."""
    most = num_frames(round(WINDOW_S * SAMPLE_RATE))
    step = round(step_s * SAMPLE_RATE / FRAME_SAMPLES)
    last = num_frames(length) - most
    firsts = [*range(0, max(last, 0), step), max(last, 0)]
    size = (most - 1) * FRAME_SAMPLES + FRAME_FIELD
    return [(first * FRAME_SAMPLES, min(length, first * FRAME_SAMPLES + size)) for first in firsts]


def votes(first: int, length: int, edge_s: float, frames: int | None = None) -> FloatArray:
    """Return the weight of a window in each of its frames: less by an edge, but not the audio's."""
    near = np.arange(1, length + 1) * (FRAME_SAMPLES / SAMPLE_RATE / edge_s)
    least = np.minimum(near + (first == 0), near[::-1] + (first + length == frames))
    return np.clip(least, LEAST_VOTE, 1).astype(np.float32)


def runs_of(is_on: Array) -> list[tuple[int, int]]:
    """Return the first frame of each run that is on, and the one behind it."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], is_on, [False])).astype(np.int8)))
    return [(int(first), int(behind)) for first, behind in edges.reshape(-1, 2)]


def num_frames(length: int) -> int:
    """Return the frames of `speaker_segmentation` in a waveform; at least 1, it is padded."""
    return max(0, length - FRAME_FIELD) // FRAME_SAMPLES + 1


def frame_at(sample: float) -> int:
    """Return the frame whose middle is next to a sample."""
    return round((sample - FRAME_FIELD / 2) / FRAME_SAMPLES)


def second_at(frame: int) -> float:
    """Return when a frame begins, half a frame before its middle, in seconds."""
    return (frame * FRAME_SAMPLES + (FRAME_FIELD - FRAME_SAMPLES) / 2) / SAMPLE_RATE


def is_of_line(waveform: FloatArray) -> bool:
    """Return whether a segment has come over a telephone line: its upper band is empty."""
    size = SAMPLE_RATE // _BIN_HZ
    frames = waveform[: len(waveform) // size * size].reshape(-1, size)
    power = np.square(np.abs(np.fft.rfft(frames * np.hanning(size).astype(np.float32)))).sum(axis=0)
    low, high = (hertz // _BIN_HZ for hertz in _IN_LINE_HZ)
    ratio = power[_ABOVE_LINE_HZ // _BIN_HZ :].sum() / max(power[low:high].sum(), 1e-12)
    return bool(10 * np.log10(ratio + 1e-12) < EMPTY_DB)
