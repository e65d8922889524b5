"""Put hotwords into a hypothesis where they explain the frames better than what it says there.

A phrase takes the place of whole words, or comes in between two. Both are compared over the frames
between the words before and after: the path of the hypothesis, and the best alignment of the phrase
with a space on either side. A language model's part of the hypothesis counts too; each word of the
phrase counts as a word that it does not know.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from conch.component.arrays import DoubleArray, FloatArray
from conch.decoding.graph.alignment import AlignedWord
from conch.decoding.hotwords.spotting import Spots
from conch.decoding.hotwords.trie import HotwordTrie
from conch.families.ctc import BLANK

UNKNOWN = -16.0
"""Natural log probability of a hotword for a language model, as of words added to a graph."""
WHOLE_WEIGHT_UNITS = 10
"""Units of a phrase that gets the weight as it is. A shorter one gets its share of it, because
fewer units say less about what was said."""
_SLACK = 10.0
"""Nats by which the best alignment between two words may be better than that of a spot."""
_OVERHANG = 6
"""Frames of a spot that words which it does not replace may cover."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A hypothesis, frame by frame."""

    words: tuple[AlignedWord, ...]
    am_scores: DoubleArray
    """float64 `[T]`: what the acoustic model adds in each frame."""
    lm_scores: DoubleArray
    """float64 `[T]`: what the language model adds in each frame, weighted, with `word_bonus`."""
    lm_weight: float = 0.0
    word_bonus: float = 0.0
    """What each word adds to the score."""


class Placed(NamedTuple):
    """A hypothesis with hotwords, and what they add to its scores."""

    words: tuple[AlignedWord, ...]
    am_score: float
    lm_score: float
    """Unweighted, without bonus."""
    score: float


class Window(NamedTuple):
    """A phrase in the frames between two words."""

    phrase: int
    start: int
    end: int
    is_last: bool
    """Whether no frame follows, as yet."""


class Alignment(NamedTuple):
    """The best path that writes some units."""

    score: float
    """Sum of its log probabilities."""
    frames: tuple[tuple[int, int], ...]
    """Of each unit: its first frame and the one after its last; empty of one that is left out."""


class _Candidate(NamedTuple):
    """A phrase in the place of the words `[first, last)`."""

    phrase: int
    first: int
    last: int
    gain: float
    am_score: float
    units: tuple[tuple[int, int], ...]
    """Frames of each unit."""


def with_hotwords(
    reading: Reading,
    log_probs: FloatArray,
    spots: Spots,
    trie: HotwordTrie,
    *,
    kept_frames: int,
    alignments: dict[Window, Alignment | None],
) -> Placed:
    """Return a hypothesis with the hotwords that beat its words.

    Args:
        reading: the hypothesis.
        log_probs: float32 `[T, V]`, as its acoustic scores count them.
        spots: where hotwords may be.
        trie: of the hotwords.
        kept_frames: no hotword takes the place of words on both sides of their end.
        alignments: those that were computed already; new ones are added.
    """
    chosen: list[_Candidate] = []
    found = _candidates(reading, log_probs, spots, trie, kept_frames, alignments)
    for item in sorted(found, key=lambda item: -item.gain):
        if all(_are_apart(item, other) for other in chosen):
            chosen.append(item)
    words: list[AlignedWord] = []
    am_score = lm_score = gain = 0.0
    place = 0
    for item in sorted(chosen, key=lambda item: (item.first, item.last)):
        replaced = reading.words[item.first : item.last]
        words += reading.words[place : item.first]
        place = item.last
        written = trie.phrases[item.phrase].split()
        if [word.text for word in replaced] == written:
            words += replaced
            continue
        words += _written(item, written, trie, log_probs)
        start, end = _window(reading, item.first, item.last)
        am_score += item.am_score - float(reading.am_scores[start:end].sum())
        gain += item.gain
        if reading.lm_weight:
            before = float(reading.lm_scores[start:end].sum()) - reading.word_bonus * len(replaced)
            lm_score += UNKNOWN * len(written) - before / reading.lm_weight
    return Placed((*words, *reading.words[place:]), am_score, lm_score, gain)


def _are_apart(one: _Candidate, other: _Candidate) -> bool:
    """Return whether two phrases share no words, and no frames between words that both replace."""
    before, after = sorted((one, other), key=lambda item: (item.first, item.last))
    is_same_place = (before.first, before.last) == (after.first, after.last)
    is_behind = before.units[-1][1] <= after.units[0][0]
    return not is_same_place and before.last <= after.first and is_behind


def _window(reading: Reading, first: int, last: int) -> tuple[int, int]:
    """Return the frames between two words that stay."""
    start = reading.words[first - 1].end_frame if first else 0
    is_last = last == len(reading.words)
    return start, len(reading.am_scores) if is_last else reading.words[last].start_frame


def _candidates(
    reading: Reading,
    log_probs: FloatArray,
    spots: Spots,
    trie: HotwordTrie,
    kept_frames: int,
    alignments: dict[Window, Alignment | None],
) -> Iterator[_Candidate]:
    """Yield the phrases that beat what the hypothesis says, each once for the same words."""
    frames, space = len(log_probs), trie.space
    silence = BLANK if space is None else [BLANK, space]
    between = log_probs[:, silence].reshape(frames, -1).max(1)
    bonuses = _bonuses(reading, trie)
    kept = sum(word.start_frame + word.end_frame <= 2 * kept_frames for word in reading.words)
    for phrase, first, last in _promising(reading, log_probs, between, spots, bonuses):
        if first < kept < last:
            continue
        start, end = _window(reading, first, last)
        window = Window(phrase, start, end, is_last=end == frames)
        if window not in alignments:
            alignments[window] = _aligned(window, log_probs, trie)
        aligned = alignments[window]
        if aligned is None:
            continue
        was = float((reading.am_scores[start:end] + reading.lm_scores[start:end]).sum())
        gain = aligned.score + float(bonuses[phrase]) - was
        if gain > 0:
            own = aligned.frames if space is None else aligned.frames[1:-1]
            shifted = tuple((one + start, other + start) for one, other in own)
            yield _Candidate(phrase, first, last, gain, aligned.score, shifted)


def _aligned(window: Window, log_probs: FloatArray, trie: HotwordTrie) -> Alignment | None:
    """Return the best alignment of a phrase with a space on either side."""
    spelling, frames = trie.spellings[window.phrase], log_probs[window.start : window.end]
    if trie.space is None:
        return best_alignment(frames, spelling, may_skip_first=False, may_skip_last=False)
    # An utterance may begin and end without a space.
    return best_alignment(
        frames,
        (trie.space, *spelling, trie.space),
        may_skip_first=window.start == 0,
        may_skip_last=window.is_last,
    )


def _bonuses(reading: Reading, trie: HotwordTrie) -> DoubleArray:
    """Return what each phrase adds to a score beside its alignment, float64 `[P]`."""
    own = reading.lm_weight * UNKNOWN + reading.word_bonus
    bonuses: DoubleArray = trie.weights * trie.lengths / WHOLE_WEIGHT_UNITS
    bonuses += own * trie.word_counts
    return bonuses


def _promising(
    reading: Reading,
    log_probs: FloatArray,
    between: FloatArray,
    spots: Spots,
    bonuses: DoubleArray,
) -> list[tuple[int, int, int]]:
    """Return phrases with the words that they may replace: those whose upper bound is a gain."""
    if not len(spots.phrases):
        return []
    starts = np.array([word.start_frame for word in reading.words], np.int64)
    ends = np.array([word.end_frame for word in reading.words], np.int64)
    frames = len(log_probs)
    befores, afters = np.concatenate([[0], ends]), np.concatenate([starts, [frames]])
    silent = _cumulated(between)
    said = _cumulated(reading.am_scores + reading.lm_scores)
    best = _cumulated(log_probs.max(1))
    first = np.searchsorted(ends, spots.starts, side="right")
    last = np.maximum(first, np.searchsorted(starts, spots.ends, side="left"))
    found: dict[tuple[int, int, int], None] = {}
    # Words that a spot only touches may stay.
    for more, less in ((0, 0), (1, 0), (0, 1), (1, 1)):
        some = np.flatnonzero(last - first >= more + less)
        one, other, phrases = first[some] + more, last[some] - less, spots.phrases[some]
        start, end = befores[one], afters[other]
        inner = spots.starts[some].clip(start, end), spots.ends[some].clip(start, end)
        bound = silent[inner[0]] - silent[start] + silent[end] - silent[inner[1]]
        bound += best[inner[1]] - best[inner[0]] + spots.scores[some] + bonuses[phrases]
        is_near = (spots.starts[some] >= start - _OVERHANG) & (spots.ends[some] <= end + _OVERHANG)
        keep = is_near & (bound + _SLACK > said[end] - said[start])
        found.update(
            dict.fromkeys(
                zip(phrases[keep].tolist(), one[keep].tolist(), other[keep].tolist(), strict=True)
            )
        )
    return list(found)


def _cumulated(values: NDArray[np.floating[Any]]) -> DoubleArray:
    """Return the sums up to each place, float64 `[N + 1]`."""
    return np.concatenate([[0.0], np.cumsum(values, dtype=np.float64)])


def best_alignment(
    log_probs: FloatArray, units: Sequence[int], *, may_skip_first: bool, may_skip_last: bool
) -> Alignment | None:
    """Return the best path of some units, None if there are too few frames.

    Args:
        log_probs: float32 `[T, V]`.
        units: at least one; two if both may be left out.
        may_skip_first: whether the first unit may be left out.
        may_skip_last: whether the last one may.
    """
    if len(log_probs) < len(units) - may_skip_first - may_skip_last:
        return None
    # Blanks and units in turn.
    places = np.full(2 * len(units) + 1, BLANK)
    places[1::2] = units
    skips = np.zeros(len(places), bool)
    skips[3::2] = places[3::2] != places[1:-2:2]
    emissions = log_probs[:, places].astype(np.float64)
    before = np.full(len(places) + 2, -np.inf)
    scores, one, two = before[2:], before[1:-1], before[:-2]
    begins = 4 if may_skip_first else 2
    scores[:begins] = emissions[0, :begins]
    steps = np.zeros(emissions.shape, np.int64)
    for frame in range(1, len(emissions)):
        jumped = np.where(skips, two, -np.inf)
        moved = np.maximum(one, jumped)
        steps[frame] = np.where(moved > scores, np.where(jumped > one, 2, 1), 0)
        scores[:] = np.maximum(scores, moved) + emissions[frame]
    first_end = len(places) - (4 if may_skip_last else 2)
    place = first_end + int(scores[first_end:].argmax())
    score = float(scores[place])
    if score == -math.inf:
        return None
    path = np.empty(len(emissions), np.int64)
    for frame in range(len(emissions) - 1, -1, -1):
        path[frame] = place
        place -= int(steps[frame, place])
    own = 2 * np.arange(len(units)) + 1
    edges = (np.searchsorted(path, own, side).tolist() for side in ("left", "right"))
    return Alignment(score, tuple(zip(*edges, strict=True)))


def _written(
    item: _Candidate,
    written: Sequence[str],
    trie: HotwordTrie,
    log_probs: FloatArray,
) -> Iterator[AlignedWord]:
    """Yield the words of a phrase with their times and confidences."""
    runs: list[list[float]] = []
    edges: list[tuple[int, int]] = []
    opens = True
    for unit, (start, end) in zip(trie.spellings[item.phrase], item.units, strict=True):
        if unit == trie.space:
            opens = True
            continue
        best = float(log_probs[start:end, unit].max())
        if opens or trie.opens[unit]:
            runs.append([best])
            edges.append((start, end))
            opens = False
        else:
            runs[-1].append(best)
            edges[-1] = edges[-1][0], end
    for text, (start, end), run in zip(written, edges, runs, strict=True):
        yield AlignedWord(text, start, end, min(1.0, math.exp(sum(run) / len(run))))
