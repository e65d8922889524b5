"""Who speaks in which frame: how many do is what segmentation says, who they are what embeddings.

Pure functions. A frame is one of `speaker_segmentation`; voices are numbered from 0.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from conch.component import SAMPLE_RATE, Array, FloatArray
from conch.families.speakers import FRAME_SAMPLES
from conch.families.speakers.clustering import one_to_one
from conch.families.speakers.pieces import Span, frame_at, num_frames, runs_of, second_at, votes
from conch.wire.turns import PAUSE_S, closed

FILLED_S = 0.5
"""Longest gap of segmentation in the VAD's speech in which somebody speaks all the same."""
MIDDLE_WEIGHT, EDGE_WEIGHT = 1.5, 0.5
"""Weights of a piece in its middle half, and outside."""
EDGE_S, LINE_EDGE_S = 1.0, 0.01
"""Seconds from its edges in which a window counts less; over a telephone line, where windows are
closer to each other, all frames count the same."""
LOCAL_WEIGHT = 0.5
"""Weight of the share of windows in which a speaker is the voice."""
LEAST_ALONE_S = 0.25
"""With less time alone, a speaker is known by all speech of theirs in the window."""
MOST_SHARED = 0.1
"""Share of a piece in which several may speak, if it is to say how a voice sounds."""
LEAST_S = 0.2
"""Shorter turns are dropped."""


@dataclass(frozen=True, slots=True)
class SegmentAnalysis:
    start: float
    """Seconds from the start of the audio."""
    length: int
    """Samples."""
    is_line: bool
    """Whether it has come over a telephone line."""
    windows: Sequence[tuple[int, Array]]
    """First frame of each window, and which of its own speakers speak, bool `[frames, 3]`."""
    spoken: Sequence[Span]
    """First sample of each stretch of speech, and the one behind it."""
    pieces: Sequence[Span]
    """First sample of each piece, and the one behind it."""
    stands_for: Sequence[int]
    """Pieces for which each one stands, itself among them."""
    embeddings: FloatArray
    """Embeddings of the pieces, of unit length, float32 `[pieces, size]`."""


class VoiceTurn(NamedTuple):
    """A stretch in which one voice speaks; others may speak too. Times are seconds."""

    voice: int
    start: float
    end: float


def turns_of(analysis: SegmentAnalysis, voices: FloatArray) -> list[VoiceTurn]:
    """Return a segment's turns by start; `voices` are of unit length, float32 `[voices, size]`."""
    frames = num_frames(analysis.length)
    counts = _counts(analysis, frames)
    if not len(voices) or not analysis.pieces:
        return []
    scores = _scores(analysis, frames, voices)
    scores = scores + LOCAL_WEIGHT * _shares(analysis, frames, scores)
    ranks = np.argsort(np.argsort(-scores, axis=1, kind="stable"), axis=1)
    speaks = ranks < counts[:, None]
    turns = [
        VoiceTurn(voice, analysis.start + start, analysis.start + end)
        for voice in range(len(voices))
        for start, end in closed(map(_seconds, runs_of(speaks[:, voice])), PAUSE_S)
        if end - start >= LEAST_S
    ]
    return sorted(turns, key=lambda turn: (turn.start, turn.voice))


def is_alone(analysis: SegmentAnalysis) -> Array:
    """Return which pieces have hardly ever several speakers, bool `[pieces]`."""
    counts = _counts(analysis, num_frames(analysis.length))
    spans = (counts[max(0, frame_at(start)) : frame_at(end)] for start, end in analysis.pieces)
    return np.array([np.mean(span > 1) <= MOST_SHARED for span in spans], bool)


def _counts(analysis: SegmentAnalysis, frames: int) -> Array:
    """Return the number of speakers in each frame, [frames]."""
    total, counted = np.zeros(frames), np.zeros(frames)
    edge_s = LINE_EDGE_S if analysis.is_line else EDGE_S
    for first, active in analysis.windows:
        weights = votes(first, len(active), edge_s, frames)
        total[first : first + len(active)] += active.sum(axis=1) * weights
        counted[first : first + len(active)] += weights
    is_speech = np.zeros(frames, bool)
    for start, end in analysis.spoken:
        first, behind = map(frame_at, (start, end))
        is_speech[max(0, first) : max(0, behind)] = True
    counts: Array = np.floor(total / np.maximum(counted, 1e-9) + 0.5) * is_speech
    for start, end in runs_of(is_speech & (counts == 0)):
        if (end - start) * FRAME_SAMPLES < FILLED_S * SAMPLE_RATE:
            counts[start:end] = 1
    return counts


def _scores(analysis: SegmentAnalysis, frames: int, voices: FloatArray) -> FloatArray:
    """Return the similarity of each frame to each voice, [frames, voices]."""
    cosines = analysis.embeddings @ voices.T
    total = np.zeros((frames, len(voices)), np.float32)
    weights = np.zeros((frames, 1), np.float32)
    for (start, end), cosine in zip(analysis.pieces, cosines, strict=True):
        quarter = (end - start) / 4
        first, left, right, behind = (
            max(0, frame_at(sample)) for sample in (start, start + quarter, end - quarter, end)
        )
        for span, weight in (
            (slice(first, left), EDGE_WEIGHT),
            (slice(left, right), MIDDLE_WEIGHT),
            (slice(right, behind), EDGE_WEIGHT),
        ):
            total[span] += weight * cosine
            weights[span] += weight
    known = np.flatnonzero(weights[:, 0])
    if not len(known):
        known = np.array([0])
        total[0], weights[0] = cosines.mean(axis=0), 1
    # A frame that no piece covers is as the next one that is covered.
    after = np.searchsorted(known, np.arange(frames)).clip(max=len(known) - 1)
    before = (after - 1).clip(min=0)
    indices = np.arange(frames)
    is_before = np.abs(known[before] - indices) < np.abs(known[after] - indices)
    nearest = np.where(is_before, known[before], known[after])
    return np.asarray((total / np.maximum(weights, 1e-9))[nearest])


def _shares(analysis: SegmentAnalysis, frames: int, scores: FloatArray) -> FloatArray:
    """Return in which share of the windows a speaker of its own is each voice, [frames, voices].

    Each speaker of a window is another voice, those first that sound most alike.
    """
    total = np.zeros_like(scores)
    counted = np.zeros((frames, 1), np.float32)
    edge_s = LINE_EDGE_S if analysis.is_line else EDGE_S
    for first, active in analysis.windows:
        span = slice(first, first + len(active))
        weights = votes(first, len(active), edge_s, frames)
        counted[span, 0] += weights
        alone = active & (active.sum(axis=1) == 1)[:, None]
        is_known = alone.sum(axis=0) * FRAME_SAMPLES >= LEAST_ALONE_S * SAMPLE_RATE
        own = np.where(is_known, alone, active).astype(np.float32)
        sounds = own.T @ scores[span] / np.maximum(own.sum(axis=0), 1)[:, None]
        sounds[~active.any(axis=0)] = -np.inf
        for speaker, voice in one_to_one(sounds).items():
            total[span][active[:, speaker], voice] += weights[active[:, speaker]]
    return np.asarray(total / np.maximum(counted, 1e-9))


def _seconds(run: Span) -> tuple[float, float]:
    first, behind = run
    return second_at(first), second_at(behind)
