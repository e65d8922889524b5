"""CTC prefix beam search.

A *prefix* is the beginning of a text, as units of the vocabulary. A path has one unit or the blank
for each frame. Many paths write the same prefix, and their probabilities add up (Graves and Jaitly,
"Towards end-to-end speech recognition with recurrent neural networks", 2014; Hannun et al.,
"First-pass large vocabulary continuous speech recognition using bi-directional recurrent DNNs",
2014). A prefix has two *parts*: the sum over its paths that end in a blank, and the sum over those
that end in its last unit. The same unit again goes on in the second part, and is a new unit after
the first.

In each frame every prefix stays, by a blank or because its last unit goes on, and grows by every
unit that is possible. A prefix that grows into another one of the beam adds to that one. Then parts
are ranked, and the best `beam_size` are kept.

A space at the beginning or after a space adds nothing to a text: the prefix stays.

`tests/support/ctc_reference.py` has the same search in thirty lines, without n-gram.
"""

import functools
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, takewhile
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from conch.component import DoubleArray
from conch.decoding.fusion import FusedLanguageModel, Fusion, Words
from conch.decoding.hypothesis import CtcHypothesis
from conch.decoding.ngram.model import Context
from conch.decoding.units import BLANK
from conch.decoding.vocab import CtcVocab
from conch.wire.errors import OptionError
from conch.wire.joining import joined_text

_NEVER = -math.inf
_RANK = itemgetter(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class CtcSearchOptions:
    beam_size: int = 10
    """Parts of prefixes kept after each frame."""
    language_model: bool = False
    """Whether to use shallow fusion with the search's n-gram."""
    lm_weight: float = 0.5
    """Weight of the n-gram's score; unused without `language_model`."""
    word_bonus: float = 1.0
    """Nats added for each word; unused without `language_model`."""
    prune_history: bool = True
    """Whether to drop prefixes that differ from a better one only in words the n-gram forgot. That
    makes room in the beam, but n-best lists hold fewer texts: choose False for these."""
    unit_min_log_prob: float = -5.0
    """Least log posterior of a unit in a frame, as pyctcdecode's `token_min_logp`. The search skips
    the other units, except the best one."""

    def __post_init__(self) -> None:
        for name, low, high in (
            ("beam_size", 1, 512),
            ("lm_weight", 0, 10),
            ("word_bonus", -20, 20),
        ):
            value = getattr(self, name)
            if not low <= value <= high:
                raise OptionError(
                    f"option '{name}' takes a number from {low} to {high}; sent: {value!r:.80}"
                )


@dataclass(frozen=True, slots=True)
class BeamHypothesis(CtcHypothesis):
    """A text of the beam; `am_score` sums the probabilities of its paths.

    `score` is `am_score + lm_weight · lm_score + word_bonus · words`. An incomplete word that
    begins no known word costs extra until it is complete.
    """

    units: tuple[int, ...]
    """Ids of the units without blanks; spaces as in the text."""
    frames: tuple[int, ...]
    """Frame of each unit, counted in the utterance, that adds most of its probability."""


class Emission(NamedTuple):
    """A linked list of the units of a path, which prefixes share."""

    before: "Emission | None"
    unit: int
    frame: int
    log_prob: float
    """The best log posterior of the unit before the next one."""


@dataclass(slots=True, eq=False)
class _Prefix:
    key: int
    """Hash of the units."""
    parent: int | None
    """Key without the last unit."""
    emission: Emission
    words: Words | None
    blank: float = _NEVER
    """Log probability of each part, and of both."""
    unit: float = _NEVER
    total: float = _NEVER
    stay_blank: float = _NEVER
    """Log probability of each part after the current frame."""
    stay_unit: float = _NEVER
    last: int = field(init=False)
    """The last unit; of the empty prefix the space, or the blank where there is none."""
    words_score: float = field(init=False)
    grown: dict[int, Words] = field(default_factory=dict)
    """The words after each unit that was tried."""
    source: "_Prefix | None" = None
    """The prefix that grew into this one, if most of the probability came from there."""

    def __post_init__(self) -> None:
        self.last = self.emission.unit
        self.words_score = self.words.gain if self.words else 0.0

    def keep(self, worst: float) -> None:
        """Take over the parts after the current frame, but none with a rank below the worst."""
        self.blank = self.stay_blank if self.stay_blank + self.words_score >= worst else _NEVER
        self.unit = self.stay_unit if self.stay_unit + self.words_score >= worst else _NEVER
        self.total = _log_sum(self.blank, self.unit)

    def emission_after(self, frame: int, units: Mapping[int, float]) -> Emission:
        log_prob = units.get(self.last, _NEVER)
        if self.source is not None:
            return Emission(self.source.emission, self.last, frame, log_prob)
        before, unit, first, best = self.emission
        return Emission(before, unit, first, log_prob) if log_prob > best else self.emission


_Part: TypeAlias = tuple[float, _Prefix, int | None, float, Words | None]
"""A part after the current frame: rank, prefix before the frame, unit that it grows by, score
without words, and words. The unit of a part that stays is the blank, or None if its last unit goes
on."""


class BeamSearch:
    def __init__(
        self,
        vocab: CtcVocab,
        options: CtcSearchOptions,
        language_model: FusedLanguageModel | None = None,
    ) -> None:
        self.options = options
        self._vocab, self._space = vocab, vocab.space
        self.language_model = language_model if options.language_model else None
        self._fusion: Fusion | None = None
        if options.language_model:
            if language_model is None:
                raise OptionError(
                    "option 'lm_fusion' takes false here: no language model is loaded; sent: True"
                )
            self._fusion = Fusion(
                language_model, vocab.texts, options.lm_weight, options.word_bonus
            )
        nothing = Emission(None, BLANK if self._space is None else self._space, 0, 0.0)
        start = self._fusion.start if self._fusion else None
        self._beam = [_Prefix(0, None, nothing, start, blank=0.0, total=0.0)]
        """Prefixes, best first."""
        self._num_frames = 0

    def advance(self, log_probs: NDArray[np.floating[Any]]) -> None:
        """Take the next frames, natural log posteriors `[T, V]`."""
        if len(log_probs):
            for frame, blank, units in self._possible(log_probs.astype(np.float64)):
                self._step(self._num_frames + frame, blank, units)
            self._num_frames += len(log_probs)

    def _possible(self, log_probs: DoubleArray) -> Iterator[tuple[int, float, dict[int, float]]]:
        """Yield frames with the log posteriors of the blank and of the other possible units.

        Frames in a row with the blank alone count as one: the others only add their log
        posterior to every prefix.
        """
        limit = np.minimum(log_probs.max(1, keepdims=True), self.options.unit_min_log_prob)
        is_possible = log_probs >= limit
        blank = np.where(is_possible[:, BLANK], log_probs[:, BLANK], _NEVER)
        is_possible[:, BLANK] = False
        is_kept = is_possible.any(1)
        is_kept[1:] |= is_kept[:-1].copy()
        is_kept[0] = True
        (frames,) = is_kept.nonzero()
        blanks = np.add.reduceat(blank, frames).tolist()
        rows, units = is_possible[frames].nonzero()
        pairs = [*zip(units.tolist(), log_probs[frames[rows], units].tolist(), strict=True)]
        ends = np.searchsorted(rows, np.arange(len(frames) + 1)).tolist()
        for frame, together, (start, end) in zip(
            frames.tolist(), blanks, pairwise(ends), strict=True
        ):
            yield frame, together, dict(pairs[start:end])

    def _step(self, frame: int, blank: float, units: Mapping[int, float]) -> None:
        present: dict[int | None, _Prefix] = {prefix.key: prefix for prefix in self._beam}
        parts = self._stay(blank, units, present)
        if units:
            self._grow(units, present, parts)
        parts.sort(key=_RANK, reverse=True)
        self._beam = self._kept(frame, units, parts[: self.options.beam_size])

    def _stay(
        self, blank: float, units: Mapping[int, float], present: Mapping[int | None, _Prefix]
    ) -> list[_Part]:
        """Let every prefix stay, with what others add by growing into it; return its parts."""
        parts: list[_Part] = []
        for prefix in self._beam:
            prefix.source = None
            score = prefix.stay_blank = prefix.total + blank
            if score > _NEVER:
                parts.append((score + prefix.words_score, prefix, BLANK, score, prefix.words))
            prefix.stay_unit = _NEVER
            again = units.get(prefix.last)
            if again is None:
                continue
            score = again + (prefix.total if prefix.last == self._space else prefix.unit)
            parent = present.get(prefix.parent)
            if parent is not None:
                arriving = again + (parent.blank if parent.last == prefix.last else parent.total)
                if arriving > max(prefix.stay_blank, score):
                    prefix.source = parent
                score = _log_sum(score, arriving)
            prefix.stay_unit = score
            if score > _NEVER:
                parts.append((score + prefix.words_score, prefix, None, score, prefix.words))
        return parts

    def _grow(
        self, units: Mapping[int, float], present: Mapping[int | None, _Prefix], parts: list[_Part]
    ) -> None:
        """Let every prefix grow by every unit; add the parts that may be among the best."""
        worst, fusion, bonus = _NEVER, self._fusion, max(0.0, self.options.word_bonus)
        if len(parts) >= self.options.beam_size:
            worst = sorted(map(_RANK, parts))[-self.options.beam_size]
        for prefix in self._beam:
            words, last = prefix.words, prefix.last
            most = bonus + words.score if words else 0.0  # a word's log probability is at most 0
            for unit, log_prob in units.items():
                if unit != last:
                    score = log_prob + prefix.total
                elif unit != self._space:
                    score = log_prob + prefix.blank  # twice in a row needs a blank between
                else:
                    continue
                rank, grown = score, None
                if words is not None and fusion is not None:
                    grown = prefix.grown.get(unit)
                    if grown is None:
                        if score + most <= worst:
                            continue
                        grown = prefix.grown[unit] = fusion.grown(words, unit)
                    rank += grown.gain
                if rank > worst and hash((prefix.key, unit)) not in present:
                    parts.append((rank, prefix, unit, score, grown))

    def _kept(
        self, frame: int, units: Mapping[int, float], parts: Sequence[_Part]
    ) -> list[_Prefix]:
        worst = parts[-1][0]
        prunes = self._fusion is not None and self.options.prune_history
        alike: set[tuple[int, Context, bool]] = set()
        met: set[int] = set()
        beam: list[_Prefix] = []
        staying: list[tuple[_Prefix, Emission]] = []
        for _, prefix, unit, score, words in parts:
            is_pruned = False
            if prunes and words is not None:
                future = words.spelling, words.context, unit == BLANK
                is_pruned = future in alike
                alike.add(future)
            if not unit:
                if prefix.key not in met:
                    met.add(prefix.key)
                    if not is_pruned:
                        beam.append(prefix)
                        staying.append((prefix, prefix.emission_after(frame, units)))
            elif not is_pruned:
                emission = Emission(prefix.emission, unit, frame, units[unit])
                key = hash((prefix.key, unit))
                beam.append(_Prefix(key, prefix.key, emission, words, unit=score, total=score))
        # Only now: grown prefixes needed the emissions before the frame.
        for prefix, emission in staying:
            prefix.emission = emission
            prefix.keep(worst)
        return beam

    def nbest(self, count: int, *, is_final: bool) -> list[BeamHypothesis]:
        """Return at most `count` different texts, best first; `is_final` if nothing follows."""
        alike: dict[str, list[tuple[float, _Prefix, Words | None]]] = defaultdict(list)
        for prefix in self._beam:
            words = prefix.words
            if is_final and self._fusion is not None and words is not None:
                words = self._fusion.finished(words)
            text = self._vocab.text_of([item.unit for item in _emissions(prefix)])
            alike[text].append((prefix.total + (words.gain if words else 0.0), prefix, words))
        ranked = []
        for text, items in alike.items():
            _, prefix, words = max(items, key=_RANK)
            am_score = functools.reduce(_log_sum, (item.total for _, item, _ in items))
            score = am_score + (words.gain if words else 0.0)
            ranked.append((score, text, am_score, prefix, words))
        ranked.sort(key=_RANK, reverse=True)
        return [self._hypothesis(*item) for item in ranked[:count]]

    def _hypothesis(
        self, score: float, text: str, am_score: float, prefix: _Prefix, words: Words | None
    ) -> BeamHypothesis:
        emissions = _emissions(prefix)
        return BeamHypothesis(
            text=text,
            words=self._vocab.words((item.unit, item.frame, item.log_prob) for item in emissions),
            score=score,
            am_score=am_score,
            lm_score=words.lm_score if words else 0.0,
            units=tuple(item.unit for item in emissions),
            frames=tuple(item.frame for item in emissions),
        )

    def stable_words(self) -> list[str]:
        """Return the words with which all texts of the beam begin: no later frame changes them."""
        spellings = [[item.unit for item in _emissions(prefix)] for prefix in self._beam]
        same = (len(set(units)) == 1 for units in zip(*spellings, strict=False))
        return self._vocab.complete(spellings[0][: sum(takewhile(bool, same))])

    def stable_text(self) -> str:
        return joined_text(self.stable_words())


def _emissions(prefix: _Prefix) -> list[Emission]:
    emissions = []
    emission = prefix.emission
    while emission.before is not None:
        emissions.append(emission)
        emission = emission.before
    return emissions[::-1]


def _log_sum(one: float, other: float) -> float:
    if one < other:
        one, other = other, one
    return one + math.log1p(math.exp(other - one)) if other > _NEVER else one
