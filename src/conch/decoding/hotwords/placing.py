"""Put hotwords into a hypothesis where they explain the frames better than its own words.

A phrase takes the place of whole words, or comes in between two. The path of the hypothesis is
compared with the best alignment of the phrase, with a space on either side, over the frames between
the words before and after. A language model's part of the hypothesis counts too; each word of the
phrase counts as a word that the model does not know.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from conch.component import DoubleArray, FloatArray
from conch.decoding.beam import BeamHypothesis, CtcSearchOptions
from conch.decoding.fusion import FusedLanguageModel
from conch.decoding.hotwords.spotting import HotwordTrie, Spotter
from conch.decoding.hypothesis import AlignedWord, CtcHypothesis, PathUnit, spelled_words
from conch.decoding.units import BLANK
from conch.wire.joining import joined_text

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
    """The scores of a hypothesis, frame by frame."""

    words: tuple[AlignedWord, ...]
    am_scores: DoubleArray
    """float64 `[T]`: what the acoustic model adds in each frame."""
    lm_scores: DoubleArray
    """float64 `[T]`: what the language model adds in each frame, weighted, with `word_bonus`."""
    lm_weight: float = 0.0
    word_bonus: float = 0.0

    def window(self, first: int, last: int) -> tuple[int, int]:
        """Return the frames of the words `[first, last)` and up to the words around them."""
        start = self.words[first - 1].end_frame if first else 0
        is_last = last == len(self.words)
        return start, len(self.am_scores) if is_last else self.words[last].start_frame


def beam_reading(
    item: BeamHypothesis,
    log_probs: FloatArray,
    options: CtcSearchOptions,
    model: FusedLanguageModel | None,
) -> Reading:
    """Return a hypothesis of a beam frame by frame, by about its best path.

    A frame between two units is of the blank or of one of them. The beam does not know which.
    `log_probs` are float32 `[T, V]`; `model` is None for a search without the n-gram.
    """
    units = np.array([BLANK, *item.units, BLANK])
    frames = np.arange(len(log_probs))
    before = np.searchsorted(item.frames, frames, side="right")
    am_scores = log_probs[:, BLANK].copy()
    for index in (before, before + 1):
        np.maximum(am_scores, log_probs[frames, units[index]], out=am_scores)
    peaks = np.array(item.frames, np.int64)
    am_scores[peaks] = log_probs[peaks, units[1:-1]]
    reading = Reading(item.words, am_scores.astype(np.float64), np.zeros(len(log_probs)))
    if model is None:
        return reading
    lm_log_probs = model.word_log_probs(word.text for word in item.words)
    for word, log_prob in zip(item.words, lm_log_probs, strict=True):
        reading.lm_scores[word.end_frame - 1] += options.lm_weight * log_prob + options.word_bonus
    return replace(reading, lm_weight=options.lm_weight, word_bonus=options.word_bonus)


class Alignment(NamedTuple):
    """The best path that writes some units."""

    score: float
    frames: tuple[tuple[int, int], ...]
    """Frame range of each unit; empty if skipped."""


class _Candidate(NamedTuple):
    """A phrase in the place of the words `[first, last)`."""

    phrase: int
    first: int
    last: int
    gain: float
    am_score: float
    units: tuple[tuple[int, int], ...]

    def is_apart(self, other: "_Candidate") -> bool:
        """Return whether two phrases share no words, and no frames between words."""
        before, after = sorted((self, other), key=lambda item: (item.first, item.last))
        is_same_range = (before.first, before.last) == (after.first, after.last)
        is_behind = before.units[-1][1] <= after.units[0][0]
        return not is_same_range and before.last <= after.first and is_behind


class HotwordFinder:
    """Finds the hotwords of one utterance as its frames come in."""

    def __init__(self, trie: HotwordTrie, blank_penalty: float) -> None:
        """`blank_penalty` is in nats: a text is compared by its best alignment alone."""
        self.kept_frames = 0
        """Frame over which no hotword reaches: words before it were sent as stable."""
        self._trie, self._blank_penalty = trie, blank_penalty
        self._spotter = Spotter(trie)
        self._frames = [np.zeros((0, len(trie.vocab)), np.float32)]
        self._alignments: dict[tuple[int, int, int, bool], Alignment | None] = {}
        """Alignments by phrase, first frame, last frame and whether no frame follows."""

    def advance(self, log_probs: FloatArray) -> None:
        """Take the next frames, float32 `[T, V]`."""
        if len(log_probs):
            frames = log_probs.astype(np.float32)
            frames[:, BLANK] -= self._blank_penalty
            self._frames.append(frames)
            self._spotter.advance(frames)

    @property
    def frames(self) -> FloatArray:
        """Log probabilities so far, float32 `[T, V]`, with the penalty."""
        self._frames = [np.concatenate(self._frames)] if len(self._frames) > 1 else self._frames
        return self._frames[0]

    def rewrite(self, item: CtcHypothesis, reading: Reading) -> CtcHypothesis:
        """Return a hypothesis of the frames so far with the hotwords that beat its words.

        Its `lm_score` changes unweighted, without bonus.
        """
        chosen: list[_Candidate] = []
        if len(self.frames):
            for one in sorted(self._candidates(reading), key=lambda one: -one.gain):
                if all(one.is_apart(other) for other in chosen):
                    chosen.append(one)
        words: list[AlignedWord] = []
        score, am_score, lm_score = item.score, item.am_score, item.lm_score
        after_last = 0
        for one in sorted(chosen, key=lambda one: (one.first, one.last)):
            replaced = reading.words[one.first : one.last]
            words += reading.words[after_last : one.first]
            after_last = one.last
            written = self._trie.phrases[one.phrase].split()
            if [word.text for word in replaced] == written:
                words += replaced
                continue
            words += self._written(one)
            frames = slice(*reading.window(one.first, one.last))
            am_score += one.am_score - float(reading.am_scores[frames].sum())
            score += one.gain
            if reading.lm_weight:
                before = float(reading.lm_scores[frames].sum()) - reading.word_bonus * len(replaced)
                lm_score += UNKNOWN * len(written) - before / reading.lm_weight
        words += reading.words[after_last:]
        text = joined_text(word.text for word in words)
        return CtcHypothesis(text, tuple(words), score, am_score, lm_score)

    def _written(self, item: _Candidate) -> tuple[AlignedWord, ...]:
        spelling = self._trie.spellings[item.phrase]
        return spelled_words(
            PathUnit(self._trie.vocab[unit], start, end, float(self.frames[start:end, unit].max()))
            for unit, (start, end) in zip(spelling, item.units, strict=True)
        )

    def _candidates(self, reading: Reading) -> Iterator[_Candidate]:
        """Yield the phrases that beat words of the hypothesis, each once for the same words."""
        trie = self._trie
        bonuses = trie.weights * trie.lengths / WHOLE_WEIGHT_UNITS
        bonuses += (reading.lm_weight * UNKNOWN + reading.word_bonus) * trie.word_counts
        kept = sum(
            word.start_frame + word.end_frame <= 2 * self.kept_frames for word in reading.words
        )
        for phrase, first, last in self._promising(reading, bonuses):
            if first < kept < last:
                continue
            start, end = reading.window(first, last)
            aligned = self._aligned(phrase, start, end)
            if aligned is None:
                continue
            said = float((reading.am_scores[start:end] + reading.lm_scores[start:end]).sum())
            gain = aligned.score + float(bonuses[phrase]) - said
            if gain > 0:
                own = aligned.frames if trie.space is None else aligned.frames[1:-1]
                shifted = tuple((one + start, other + start) for one, other in own)
                yield _Candidate(phrase, first, last, gain, aligned.score, shifted)

    def _aligned(self, phrase: int, start: int, end: int) -> Alignment | None:
        key = phrase, start, end, end == len(self.frames)
        if key not in self._alignments:
            units, space = self._trie.spellings[phrase], self._trie.space
            # An utterance may begin and end without a space.
            self._alignments[key] = best_alignment(
                self.frames[start:end],
                units if space is None else (space, *units, space),
                may_skip_first=space is not None and start == 0,
                may_skip_last=space is not None and end == len(self.frames),
            )
        return self._alignments[key]

    def _promising(self, reading: Reading, bonuses: DoubleArray) -> list[tuple[int, int, int]]:
        """Return phrases with the words that they may replace: those whose upper bound is a gain.

        `bonuses` are float64 `[P]`: what each phrase adds to a score besides its alignment.
        """
        spots = self._spotter.spots()
        if not len(spots.phrases):
            return []
        starts = np.array([word.start_frame for word in reading.words], np.int64)
        ends = np.array([word.end_frame for word in reading.words], np.int64)
        befores, afters = np.append(0, ends), np.append(starts, len(self.frames))
        silence = [BLANK] if self._trie.space is None else [BLANK, self._trie.space]
        silent = _cumulated(self.frames[:, silence].max(1))
        said = _cumulated(reading.am_scores + reading.lm_scores)
        best = _cumulated(self.frames.max(1))
        first = np.searchsorted(ends, spots.starts, side="right")
        last = np.maximum(first, np.searchsorted(starts, spots.ends, side="left"))
        promising: dict[tuple[int, int, int], None] = {}
        # Words that a spot only touches may stay.
        for more, less in ((0, 0), (1, 0), (0, 1), (1, 1)):
            some = np.flatnonzero(last - first >= more + less)
            one, other, phrases = first[some] + more, last[some] - less, spots.phrases[some]
            start, end = befores[one], afters[other]
            inner = spots.starts[some].clip(start, end), spots.ends[some].clip(start, end)
            bound = silent[inner[0]] - silent[start] + silent[end] - silent[inner[1]]
            bound += best[inner[1]] - best[inner[0]] + spots.scores[some] + bonuses[phrases]
            is_near = spots.starts[some] >= start - _OVERHANG
            is_near &= spots.ends[some] <= end + _OVERHANG
            keep = is_near & (bound + _SLACK > said[end] - said[start])
            columns = (item[keep].tolist() for item in (phrases, one, other))
            promising.update(dict.fromkeys(zip(*columns, strict=True)))
        return list(promising)


def _cumulated(values: NDArray[np.floating[Any]]) -> DoubleArray:
    """Return the sums up to each index, float64 `[N + 1]`."""
    return np.concatenate([[0.0], np.cumsum(values, dtype=np.float64)])


def best_alignment(
    log_probs: FloatArray, units: Sequence[int], *, may_skip_first: bool, may_skip_last: bool
) -> Alignment | None:
    """Return the best path of some units, None if there are too few frames.

    `log_probs` are float32 `[T, V]`. There are at least two units if both ends may be left out.
    """
    if len(log_probs) < len(units) - may_skip_first - may_skip_last:
        return None
    # Blanks and units in turn.
    states = np.full(2 * len(units) + 1, BLANK)
    states[1::2] = units
    skips = np.zeros(len(states), bool)
    skips[3::2] = states[3::2] != states[1:-2:2]
    emissions = log_probs[:, states].astype(np.float64)
    before = np.full(len(states) + 2, -np.inf)
    scores, one, two = before[2:], before[1:-1], before[:-2]
    begins = 4 if may_skip_first else 2
    scores[:begins] = emissions[0, :begins]
    steps = np.zeros(emissions.shape, np.int64)
    for frame in range(1, len(emissions)):
        jumped = np.where(skips, two, -np.inf)
        moved = np.maximum(one, jumped)
        steps[frame] = np.where(moved > scores, np.where(jumped > one, 2, 1), 0)
        scores[:] = np.maximum(scores, moved) + emissions[frame]
    first_end = len(states) - (4 if may_skip_last else 2)
    state = first_end + int(scores[first_end:].argmax())
    score = float(scores[state])
    if score == -math.inf:
        return None
    path = np.empty(len(emissions), np.int64)
    for frame in range(len(emissions) - 1, -1, -1):
        path[frame] = state
        state -= int(steps[frame, state])
    own = 2 * np.arange(len(units)) + 1
    edges = (np.searchsorted(path, own, side).tolist() for side in ("left", "right"))
    return Alignment(score, tuple(zip(*edges, strict=True)))
