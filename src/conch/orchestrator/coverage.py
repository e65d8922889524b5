"""Whether a text covers the speech that it was decoded from; pure.

An attention decoder may end its text at a pause or begin it behind one, with a score as good as
any other. The alignment gives it away: where words were left out, nothing was said by the text, or
the words next to the place last longer than anybody speaks them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from conch.component import Array
from conch.component.waveform import SAMPLE_RATE, VAD_FRAME_SAMPLES
from conch.wire.result import Word

FRAME_S = VAD_FRAME_SAMPLES / SAMPLE_RATE
"""Seconds of one speech probability."""

# What an English word takes of speech in the slowest reading of dev. Of 490 segments with pauses,
# all holes of a second and more beyond it were lost words, and nearly none below 0.45 s.
WORD_S = 0.35
CHARACTER_S = 0.09
CERTAIN_S = 1.0
"""Speech beyond its words from which on a hole is certain."""
DOUBTFUL_S = 0.45
"""… and from which on somebody else is to be asked."""

MIN_PAUSE_S = 0.4
"""A text leaves something out at a pause: all that did on dev had one of 0.5 s or more."""
THIN_CHARS_PER_S = 10.0
"""… or the text is short: nine of ten segments of dev have more than 15 characters a second."""

CUT_SEARCH_S = 0.3
"""How far from the edge of a hole its audio may be cut."""


@dataclass(frozen=True, slots=True)
class Hole:
    """A stretch of speech that a text leaves out."""

    start: float
    """Seconds from the segment's start."""
    end: float
    """Seconds from the segment's start."""
    first: int
    """The first of the words that lie in it, …"""
    after: int
    """… and the one after the last: the same where none does."""
    missing_s: float
    """Speech in it beyond what its words take, in seconds."""


@dataclass(frozen=True, slots=True)
class _Stretch:
    """A word or the time between two."""

    start: float
    end: float
    first: int
    after: int
    excess_s: float
    """Speech beyond what its word takes; below 0 where there is less."""


def has_pause(speech_probs: Array, threshold: float) -> bool:
    """Whether somebody pauses for MIN_PAUSE_S between two words.

    Args:
        speech_probs: FP32 [frames], of 32 ms each.
        threshold: probability from which on a frame is speech.
    """
    spoken = np.flatnonzero(np.asarray(speech_probs) >= threshold)
    return bool(np.any(np.diff(spoken) > MIN_PAUSE_S / FRAME_S))


def is_thin(text: str, speech_probs: Array, threshold: float) -> bool:
    """Whether a text has few characters for its speech; arguments as of `has_pause`."""
    speech_s = np.count_nonzero(np.asarray(speech_probs) >= threshold) * FRAME_S
    return len(text) < THIN_CHARS_PER_S * speech_s


def holes(words: Sequence[Word], speech_probs: Array, threshold: float) -> list[Hole]:
    """Return the stretches in which at least DOUBTFUL_S of speech are left out, the worst first.

    Each is a run of words and gaps with the largest sum of speech beyond what its words take (as
    in Kadane's algorithm), since the alignment spreads what is missing over the words on both
    sides. No two overlap.

    Args:
        words: of the text, in order, seconds from the segment's start.
        speech_probs: FP32 [frames], of 32 ms each, of the segment.
        threshold: probability from which on a frame is speech.
    """
    found: list[Hole] = []
    worst: Hole | None = None
    start, first, missing_s = 0.0, 0, 0.0
    for stretch in _stretches(words, speech_probs, threshold):
        if missing_s <= 0:
            found += [worst] if worst else []
            worst = None
            start, first, missing_s = stretch.start, stretch.first, 0.0
        missing_s += stretch.excess_s
        if missing_s >= DOUBTFUL_S and (worst is None or missing_s > worst.missing_s):
            worst = Hole(start, stretch.end, first, stretch.after, missing_s)
    found += [worst] if worst else []
    return sorted(found, key=lambda hole: -hole.missing_s)


def cut_near(speech_probs: Array, seconds: float) -> float:
    """Return where to cut audio near a time: the middle of the frame least likely to be speech.

    Args:
        speech_probs: FP32 [frames], of 32 ms each.
        seconds: the time, on the clock of these frames.
    """
    frame, reach = round(seconds / FRAME_S), round(CUT_SEARCH_S / FRAME_S)
    first = max(0, frame - reach)
    near = speech_probs[first : frame + reach + 1]
    if not len(near):
        return seconds
    # Turned round for the sake of NaN, of which nothing is above or below.
    quiet = first + np.flatnonzero(~(near > near.min() + 0.02))
    return float(quiet[np.argmin(np.abs(quiet - frame))] + 0.5) * FRAME_S


def within_speech(
    words: Sequence[Word], speech_probs: Array, threshold: float, margin_s: float = 0.1
) -> list[Word]:
    """Return the words without the silence that the alignment gave to them.

    A word that begins in silence begins `margin_s` before the speech in it, and ends so much after
    it. One without any speech in it stays as it is.

    Args:
        words: in order, seconds from the segment's start.
        speech_probs: FP32 [frames], of 32 ms each, of the segment.
        threshold: probability from which on a frame is speech.
        margin_s: kept on each side; the VAD opens late on soft sounds.
    """
    is_speech = np.asarray(speech_probs) >= threshold
    found = []
    for word in words:
        first, last = int(word.start / FRAME_S), int(np.ceil(word.end / FRAME_S))
        frames = first + np.flatnonzero(is_speech[first:last])
        start, end = word.start, word.end
        if len(frames):
            start = max(start, frames[0] * FRAME_S - margin_s)
            end = min(end, (frames[-1] + 1) * FRAME_S + margin_s)
        found.append(Word(word.text, float(start), float(end), word.confidence))
    return found


def _stretches(words: Sequence[Word], speech_probs: Array, threshold: float) -> Iterator[_Stretch]:
    """Yield every word and the gaps before, between and after them, in order of time."""
    is_speech = np.asarray(speech_probs) >= threshold
    passed = np.concatenate(([0.0], np.cumsum(is_speech) * FRAME_S))
    edges = np.arange(len(passed)) * FRAME_S

    def speech_s(start: float, end: float) -> float:
        before, until = np.interp([start, max(start, end)], edges, passed)
        return float(until - before)

    reached = 0.0
    for index, word in enumerate(words):
        yield _Stretch(reached, word.start, index, index, speech_s(reached, word.start))
        excess_s = speech_s(word.start, word.end) - WORD_S - CHARACTER_S * len(word.text)
        yield _Stretch(word.start, word.end, index, index + 1, excess_s)
        reached = max(reached, word.end)
    end = float(edges[-1])
    yield _Stretch(reached, end, len(words), len(words), speech_s(reached, end))
