"""Modified beam search of transducers, for several utterances at once.

In each frame a hypothesis stays, by a blank, or grows by one unit. Hypotheses with the same units
are one, and their probabilities add up (`modified_beam_search` of icefall and sherpa-onnx). With a
beam of one that is the greedy search.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from conch.component.arrays import FloatArray
from conch.decoding.hypothesis import CtcHypothesis
from conch.decoding.transducer.bias import NOTHING_WRITTEN, Bias, BiasState
from conch.decoding.transducer.joint import Context, Joint
from conch.decoding.transducer.units import TransducerUnits
from conch.wire.hotwords import Hotword
from conch.wire.joining import joined_text

_AHEAD = 8
"""Frames that a greedy search looks at in one call: some more than from one unit to the next."""

_LEAST_WITH_HOTWORDS = 4
"""Hypotheses of a search with hotwords: one alone would follow none of them."""
_MORE = 4


@dataclass(frozen=True, slots=True)
class Spoken:
    """A unit of a hypothesis, and all before it."""

    before: "Spoken | None"
    unit: int
    frame: int
    log_prob: float
    length: int
    """Number of units, this one among them."""

    def __iter__(self) -> Iterator[tuple[int, int, float]]:
        """Iterate over number, frame and log probability of the units, the first one first."""
        found: list[Spoken] = []
        item: Spoken | None = self
        while item:
            found.append(item)
            item = item.before
        return ((item.unit, item.frame, item.log_prob) for item in reversed(found))


@dataclass(frozen=True, slots=True)
class _Hypothesis:
    score: float
    """Log probability of the units, plus what hotwords add."""
    context: Context
    last: Spoken | None = None
    key: int = 0
    """Hash of the units."""
    bias: BiasState = NOTHING_WRITTEN

    @property
    def length(self) -> int:
        return self.last.length if self.last else 0

    @property
    def average(self) -> float:
        """The score by which hypotheses are ranked; the context before the first unit counts."""
        return self.score / (self.length + len(self.context))

    def grown(
        self, unit: int, frame: int, log_prob: float, score: float, bias: BiasState
    ) -> "_Hypothesis":
        last = Spoken(self.last, unit, frame, log_prob, self.length + 1)
        return _Hypothesis(score, (*self.context[1:], unit), last, hash((self.key, unit)), bias)

    def finished(self) -> "_Hypothesis":
        """Return the hypothesis if nothing follows."""
        return replace(self, score=self.score - self.bias.gain + self.bias.final_gain)


class TransducerUtterance:
    """The hypotheses of one utterance."""

    def __init__(
        self, units: TransducerUnits, start: Context, beam_size: int, bias: Bias | None
    ) -> None:
        """Begin an utterance."""
        self.beam_size, self.bias = beam_size, bias
        self.beam = [_Hypothesis(0.0, start)]
        self.num_frames = 0
        self._units = units

    def nbest(self, count: int, *, is_final: bool) -> list[CtcHypothesis]:
        """Return the best hypotheses, best first, no text twice.

        The first has its own score. The others have their average for a unit, times the number of
        units of the first.
        """
        beam = [item.finished() for item in self.beam] if is_final else self.beam
        ranked = sorted(beam, key=lambda item: -item.average)
        length = ranked[0].length + len(ranked[0].context)
        found: dict[str, CtcHypothesis] = {}
        for item in ranked:
            words = self._units.words(item.last or ())
            text = joined_text(word.text for word in words)
            score = item.average * length
            added = item.bias.final_gain if is_final else item.bias.gain
            am_score = item.score - added
            found.setdefault(text, CtcHypothesis(text, words, score, am_score, 0.0))
        return [*found.values()][:count]

    def stable_text(self) -> str:
        """Return the words at the beginning of the text that no later frame can change."""
        shared = [*(self.beam[0].last or ())]
        for item in self.beam[1:]:
            pairs = zip(shared, item.last or (), strict=False)
            num_same = next((n for n, (a, b) in enumerate(pairs) if a[0] != b[0]), None)
            shared = shared[: min(len(shared), item.length) if num_same is None else num_same]
        # The last word may grow.
        return joined_text(word.text for word in self._units.words(shared)[:-1])


class TransducerSearch:
    """Searches frames with a model."""

    def __init__(self, joint: Joint, units: TransducerUnits) -> None:
        """Search by decoder and joiner."""
        self._joint, self._units, self._texts = joint, units, units.texts

    def utterance(self, beam_size: int, hotwords: Sequence[Hotword] = ()) -> TransducerUtterance:
        """Return a new utterance. With hotwords its beam is not too small for them."""
        bias = Bias(hotwords, self._texts) if hotwords else None
        beam_size = max(beam_size, _LEAST_WITH_HOTWORDS) if bias else beam_size
        return TransducerUtterance(self._units, self._joint.start, beam_size, bias)

    def advance(
        self, utterances: Sequence[TransducerUtterance], frames: Sequence[FloatArray]
    ) -> None:
        """Take the next frames of each utterance, float32 `[T, size]`."""
        pairs = [pair for pair in zip(utterances, frames, strict=True) if len(pair[1])]
        if self._joint.is_one_by_one and len(pairs) > 1:
            for utterance, its in pairs:
                self.advance([utterance], [its])
            return
        self._advance_greedily([pair for pair in pairs if pair[0].beam_size == 1])
        self._advance_beams([pair for pair in pairs if pair[0].beam_size > 1])
        for utterance, its in pairs:
            utterance.num_frames += len(its)

    def _advance_greedily(self, pairs: Sequence[tuple[TransducerUtterance, FloatArray]]) -> None:
        """Look at frames until the next unit, which changes what follows."""
        ahead = 1 if self._joint.is_one_by_one else max(1, _AHEAD // max(1, len(pairs) // 4))
        places = [0] * len(pairs)
        while going := [n for n, (_, its) in enumerate(pairs) if places[n] < len(its)]:
            blocks = [pairs[n][1][places[n] : places[n] + ahead] for n in going]
            predicted = self._joint.predicted([pairs[n][0].beam[0].context for n in going])
            sizes = [*map(len, blocks)]
            found = self._joint.log_probs(
                np.concatenate(blocks), np.repeat(predicted, sizes, axis=0)
            )
            best = found.argmax(axis=1)
            peaks = found[np.arange(len(best)), best].astype(np.float64)
            emits = ~np.isin(best, self._units.silent)
            start = 0
            for n, size in zip(going, sizes, strict=True):
                utterance = pairs[n][0]
                (item,) = utterance.beam
                (units,) = emits[start : start + size].nonzero()
                used = int(units[0]) + 1 if len(units) else size
                score = item.score + float(peaks[start : start + used].sum())
                if len(units):
                    last = start + used - 1
                    frame = utterance.num_frames + places[n] + used - 1
                    unit, log_prob = int(best[last]), float(peaks[last])
                    grown = item.grown(unit, frame, log_prob, score, item.bias)
                    utterance.beam = [grown]
                else:
                    utterance.beam = [replace(item, score=score)]
                places[n] += used
                start += size

    def _advance_beams(self, pairs: Sequence[tuple[TransducerUtterance, FloatArray]]) -> None:
        """Search frame by frame, the hypotheses of all utterances in one call."""
        for frame in range(max((len(its) for _, its in pairs), default=0)):
            going = [(item, its[frame]) for item, its in pairs if frame < len(its)]
            sizes = [len(item.beam) for item, _ in going]
            contexts = [one.context for item, _ in going for one in item.beam]
            rows = np.repeat(np.stack([row for _, row in going]), sizes, axis=0)
            found = self._joint.log_probs(rows, self._joint.predicted(contexts))
            start = 0
            for (item, _), size in zip(going, sizes, strict=True):
                item.beam = self._next_beam(
                    item, found[start : start + size], item.num_frames + frame
                )
                start += size

    def _next_beam(
        self, utterance: TransducerUtterance, log_probs: FloatArray, frame: int
    ) -> list[_Hypothesis]:
        """Return the beam after a frame; `log_probs` are float32 `[hypotheses, units]`."""
        before = np.array([item.score for item in utterance.beam])
        totals = (log_probs + before[:, None]).ravel()
        bias = utterance.bias
        # Some more, among which hotwords choose.
        count = min(utterance.beam_size * (_MORE if bias else 1), len(totals))
        best = np.argpartition(-totals, count - 1)[:count]
        grown = []
        for place in best.tolist():
            row, unit = divmod(place, log_probs.shape[1])
            item, score = utterance.beam[row], float(totals[place])
            if unit in self._units.silent:
                grown.append(replace(item, score=score))
                continue
            state = bias.after(item.bias, unit) if bias else item.bias
            score += state.gain - item.bias.gain if bias else 0.0
            grown.append(item.grown(unit, frame, float(log_probs[row, unit]), score, state))
        grown.sort(key=lambda item: -item.score)
        after: dict[int, _Hypothesis] = {}
        for found in grown[: utterance.beam_size]:
            if same := after.get(found.key):
                found = replace(same, score=_log_sum(same.score, found.score))
            after[found.key] = found
        return [*after.values()]


def _log_sum(one: float, other: float) -> float:
    high, low = max(one, other), min(one, other)
    return high + math.log1p(math.exp(low - high))
