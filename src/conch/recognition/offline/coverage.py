"""Find gaps: speech that a text leaves out; pure functions.

An attention decoder may end its text at a pause or begin it after one, with a good score. The
alignment shows it: where words are missing, there is speech without a word, or the words next to
it last longer than anyone speaks them.

Speech probabilities are FP32 [frames] of 32 ms each; times are seconds from the segment's start.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from conch.component import SAMPLE_RATE, VAD_FRAME_SAMPLES, Array
from conch.wire.result import Word

FRAME_S = VAD_FRAME_SAMPLES / SAMPLE_RATE
"""Seconds of one speech probability."""
# The length of English words in the slowest recording of dev. In 490 segments with pauses, every
# gap with a second more speech had lost words, and hardly one below 0.45 s had.
WORD_S = 0.35
CHARACTER_S = 0.09
CERTAIN_S = 1.0
"""Seconds of speech beyond its words that make a gap certain."""
DOUBTFUL_S = 0.45
"""Seconds of speech beyond its words that make a gap doubtful: a second opinion decides."""
MIN_PAUSE_S = 0.4
"""Texts leave speech out at a pause: on dev, at one of 0.5 s or more in all cases."""
THIN_CHARS_PER_S = 10.0
"""A text with fewer characters per second is thin. Nine of ten segments of dev have over 15."""
CUT_SEARCH_S = 0.3
"""Largest distance of a cut from the edge of its gap, in seconds."""
MARGIN_S = 0.1
"""Silence that `within_speech` keeps on each side, because the VAD is late on soft sounds."""


class Gap(NamedTuple):
    """A stretch of speech that a text leaves out; or a single word, or what is between two."""

    start: float
    end: float
    first: int
    """Index of the first word in the gap."""
    after: int
    """Index after the last word in the gap; equal to `first` if there is none."""
    missing_s: float
    """Speech beyond the expected length of its words, in seconds; negative if there is less."""


def has_pause(speech_probs: Array, threshold: float) -> bool:
    """Return whether the speech has a pause of at least MIN_PAUSE_S."""
    spoken = np.flatnonzero(np.asarray(speech_probs) >= threshold)
    return bool(np.any(np.diff(spoken) > MIN_PAUSE_S / FRAME_S))


def is_thin(text: str, speech_probs: Array, threshold: float) -> bool:
    """Return whether a text has few characters for its speech."""
    speech_s = np.count_nonzero(np.asarray(speech_probs) >= threshold) * FRAME_S
    return len(text) < THIN_CHARS_PER_S * speech_s


def gaps(words: Sequence[Word], speech_probs: Array, threshold: float) -> list[Gap]:
    """Return the stretches that leave out at least DOUBTFUL_S of speech, the worst first.

    The alignment spreads missing speech over the words on both sides. So a gap is the run of words
    and pauses with the largest sum of excess speech, found by Kadane's algorithm. Gaps do not
    overlap.
    """
    disjoint: list[Gap] = []
    worst: Gap | None = None
    start, first, missing_s = 0.0, 0, 0.0
    for stretch in _stretches(words, speech_probs, threshold):
        if missing_s <= 0:
            disjoint += [worst] if worst else []
            worst = None
            start, first, missing_s = stretch.start, stretch.first, 0.0
        missing_s += stretch.missing_s
        if missing_s >= DOUBTFUL_S and (worst is None or missing_s > worst.missing_s):
            worst = Gap(start, stretch.end, first, stretch.after, missing_s)
    disjoint += [worst] if worst else []
    return sorted(disjoint, key=lambda gap: -gap.missing_s)


def cut_near(speech_probs: Array, seconds: float) -> float:
    """Return where to cut audio near a time: the middle of the frame least likely to be speech."""
    frame, reach = round(seconds / FRAME_S), round(CUT_SEARCH_S / FRAME_S)
    first = max(0, frame - reach)
    near = speech_probs[first : frame + reach + 1]
    if not len(near):
        return seconds
    # Negated so that NaN counts as quiet.
    quiet = first + np.flatnonzero(~(near > near.min() + 0.02))
    return float(quiet[np.argmin(np.abs(quiet - frame))] + 0.5) * FRAME_S


def within_speech(words: Sequence[Word], speech_probs: Array, threshold: float) -> list[Word]:
    """Return the words without silence at their edges, but for MARGIN_S on each side.

    A word without speech is unchanged.
    """
    is_speech = np.asarray(speech_probs) >= threshold
    trimmed = []
    for word in words:
        first, last = int(word.start / FRAME_S), int(np.ceil(word.end / FRAME_S))
        frames = first + np.flatnonzero(is_speech[first:last])
        start, end = word.start, word.end
        if len(frames):
            start = max(start, frames[0] * FRAME_S - MARGIN_S)
            end = min(end, (frames[-1] + 1) * FRAME_S + MARGIN_S)
        trimmed.append(Word(word.text, float(start), float(end), word.confidence))
    return trimmed


def _stretches(words: Sequence[Word], speech_probs: Array, threshold: float) -> Iterator[Gap]:
    """Yield every word, and what is before, between and after them, in order of time."""
    is_speech = np.asarray(speech_probs) >= threshold
    speech_until = np.concatenate(([0.0], np.cumsum(is_speech) * FRAME_S))
    edges = np.arange(len(speech_until)) * FRAME_S

    def speech_s(start: float, end: float) -> float:
        before, until = np.interp([start, max(start, end)], edges, speech_until)
        return float(until - before)

    reached = 0.0
    for index, word in enumerate(words):
        yield Gap(reached, word.start, index, index, speech_s(reached, word.start))
        excess_s = speech_s(word.start, word.end) - WORD_S - CHARACTER_S * len(word.text)
        yield Gap(word.start, word.end, index, index + 1, excess_s)
        reached = max(reached, word.end)
    end = float(edges[-1])
    yield Gap(reached, end, len(words), len(words), speech_s(reached, end))
