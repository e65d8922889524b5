"""Modified beam search of transducers, for several utterances at once.

In each frame a hypothesis stays, by a blank, or grows by one unit. Hypotheses with the same units
are one, and their probabilities add up (`modified_beam_search` of icefall and sherpa-onnx). With a
beam of one that is the greedy search.

A model of NeMo may write several units at a frame, or go on by several frames (token and duration
transducers: Xu et al., 2023, https://arxiv.org/abs/2304.06795). Of its hypotheses those grow that
are least far, and none are joined, as in sherpa-onnx.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import numpy as np

from conch.component import FloatArray
from conch.decoding.hypothesis import CtcHypothesis
from conch.decoding.vocab import WrittenUnits
from conch.families.transducer.guide import Guide, Guided
from conch.families.transducer.networks import Context, Joint, Predictor
from conch.wire.joining import joined_text

_LEAST_GUIDED = 4
"""Hypotheses of a search with hotwords or an n-gram: one alone would follow none of them."""
_MORE = 4
_MOST_UNITS = 10
"""Units at one frame of a hypothesis of a beam."""


@dataclass(slots=True)  # frozen, it would take twice as long to make
class EmittedUnit:
    """A unit of a hypothesis, and all before it."""

    before: "EmittedUnit | None"
    unit: int
    frame: int
    log_prob: float
    length: int
    """Number of units, this one among them."""

    def __iter__(self) -> Iterator[tuple[int, int, float]]:
        """Iterate over number, frame and log probability of the units, the first one first."""
        units: list[EmittedUnit] = []
        item: EmittedUnit | None = self
        while item:
            units.append(item)
            item = item.before
        return ((item.unit, item.frame, item.log_prob) for item in reversed(units))


class _Hypothesis(NamedTuple):
    score: float
    """Log probability of the units, plus what guides add."""
    context: Context
    last: EmittedUnit | None = None
    key: int = 0
    """Hash of the units."""
    guided: Guided = Guided()
    at: int = 0
    """The frame that comes next."""
    num_here: int = 0
    """Units that were written at this frame."""

    @property
    def length(self) -> int:
        return self.last.length if self.last else 0

    def with_guided(self, guided: Guided) -> "_Hypothesis":
        """Return the hypothesis with another state of its guides, and so another score."""
        return self._replace(score=self.score - self.guided.gain + guided.gain, guided=guided)


class TransducerUtterance:
    def __init__(
        self, units: WrittenUnits, predictor: Predictor, beam_size: int, guide: Guide
    ) -> None:
        self.beam_size, self.guide = beam_size, guide
        self.beam = [_Hypothesis(0.0, predictor.start, guided=guide.start)]
        self.num_frames = 0
        self._units, self._context_size = units, predictor.size

    def nbest(self, count: int, *, is_final: bool) -> list[CtcHypothesis]:
        """Return the best hypotheses, best first, no text twice.

        The first has its own score. The others have their average for a unit, times the number of
        units of the first. Those of a model of NeMo are ranked by their scores.
        """
        beam = self.beam
        if is_final:
            beam = [item.with_guided(self.guide.finished(item.guided)) for item in beam]
        ranked = sorted(beam, key=lambda item: -item.score / self._length(item))
        hypotheses: dict[str, CtcHypothesis] = {}
        for item in ranked:
            words = self._units.words(item.last or ())
            text = joined_text(word.text for word in words)
            score = item.score / self._length(item) * self._length(ranked[0])
            am_score, lm_score = item.score - item.guided.gain, item.guided.lm_score
            ends_turn = item.last is not None and item.last.unit in self._units.ends
            hypotheses.setdefault(
                text,
                CtcHypothesis(text, words, score, am_score, lm_score, ends_turn=ends_turn),
            )
        return [*hypotheses.values()][:count]

    def _length(self, item: _Hypothesis) -> int:
        # The context before the first unit counts.
        return item.length + self._context_size if self._context_size else 1

    def stable_text(self) -> str:
        shared = [*(self.beam[0].last or ())]
        for item in self.beam[1:]:
            pairs = zip(shared, item.last or (), strict=False)
            num_same = next((n for n, (a, b) in enumerate(pairs) if a[0] != b[0]), None)
            shared = shared[: min(len(shared), item.length) if num_same is None else num_same]
        # The last word may grow.
        return joined_text(word.text for word in self._units.words(shared)[:-1])


class TransducerSearch:
    def __init__(self, joint: Joint, units: WrittenUnits) -> None:
        self._joint, self._units = joint, units

    def utterance(self, beam_size: int, guide: Guide | None = None) -> TransducerUtterance:
        """Return a new utterance. With a guide its beam is not too small to follow it."""
        guide = guide or Guide()
        beam_size = max(beam_size, _LEAST_GUIDED) if guide else beam_size
        return TransducerUtterance(self._units, self._joint.predictor, beam_size, guide)

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
        ahead = max(1, self._joint.ahead // max(1, len(pairs) // 4))
        while going := [
            (item, its[item.beam[0].at - item.num_frames :][:ahead])
            for item, its in pairs
            if item.beam[0].at < item.num_frames + len(its)
        ]:
            blocks = [block for _, block in going]
            predicted = self._joint.predictor.predicted([item.beam[0].context for item, _ in going])
            sizes = [*map(len, blocks)]
            expected = self._joint.expected(
                np.concatenate(blocks), np.repeat(predicted, sizes, axis=0)
            )
            best = expected.log_probs.argmax(axis=1)
            peaks = expected.log_probs[np.arange(len(best)), best]
            columns = (best, peaks, expected.steps, expected.step_log_probs)
            rows = zip(*(column.tolist() for column in columns), strict=True)
            for (utterance, _), size in zip(going, sizes, strict=True):
                utterance.beam = [self._walked(utterance.beam[0], [*islice(rows, size)])]

    def _walked(
        self, item: _Hypothesis, rows: Sequence[tuple[int, float, int, float]]
    ) -> _Hypothesis:
        """Return a hypothesis after blanks, and a unit if there is one.

        `rows` are the best unit at each of the next frames, its log probability, the step from
        there and its log probability.
        """
        at, num_here, score = item.at, item.num_here, item.score
        while at - item.at < len(rows):
            unit, log_prob, step, step_log_prob = rows[at - item.at]
            score += log_prob + step_log_prob
            if unit not in self._units.silent:
                item = item._replace(at=at, num_here=num_here)
                most = self._joint.most_units
                return self._grown(item, unit, log_prob, score, step, most, item.guided)
            at, num_here = at + max(1, step), 0
        return item._replace(score=score, at=at, num_here=0)

    def _grown(
        self,
        item: _Hypothesis,
        unit: int,
        log_prob: float,
        score: float,
        step: int,
        most: int,
        guided: Guided,
    ) -> _Hypothesis:
        """Return a hypothesis with a further unit; after `most` at a frame the next one comes."""
        num_here = item.num_here + 1
        step = step or num_here // most
        return _Hypothesis(
            score,
            self._joint.predictor.after(item.context, unit),
            EmittedUnit(item.last, unit, item.at, log_prob, item.length + 1),
            hash((item.key, unit)),
            guided,
            item.at + step,
            0 if step else num_here,
        )

    def _advance_beams(self, pairs: Sequence[tuple[TransducerUtterance, FloatArray]]) -> None:
        """Search frame by frame, the hypotheses of all utterances in one call."""
        while True:
            going = []
            for utterance, its in pairs:
                items = self._least_far(utterance.beam)
                index = items[0].at - utterance.num_frames
                if index < len(its):
                    going.append((utterance, items, its[index]))
            if not going:
                return
            sizes = [len(items) for _, items, _ in going]
            contexts = [item.context for _, items, _ in going for item in items]
            rows = np.repeat(np.stack([row for *_, row in going]), sizes, axis=0)
            expected = self._joint.expected(rows, self._joint.predictor.predicted(contexts))
            steps, before = expected.steps.tolist(), expected.step_log_probs.tolist()
            start = 0
            for (utterance, items, _), size in zip(going, sizes, strict=True):
                its_rows = slice(start, start + size)
                utterance.beam = self._next_beam(
                    utterance,
                    items,
                    expected.log_probs[its_rows],
                    steps[its_rows],
                    before[its_rows],
                )
                start += size

    def _least_far(self, beam: list[_Hypothesis]) -> list[_Hypothesis]:
        if not self._joint.is_nemo:
            return beam
        now = min(item.at for item in beam)
        return [item for item in beam if item.at == now]

    def _next_beam(
        self,
        utterance: TransducerUtterance,
        items: Sequence[_Hypothesis],
        log_probs: FloatArray,
        steps: Sequence[int],
        step_log_probs: Sequence[float],
    ) -> list[_Hypothesis]:
        """Return the beam after `items`, those that are least far, have grown.

        `log_probs` are float32 `[hypotheses, units]`, `steps` those of each with a log probability.
        """
        pairs = zip(items, step_log_probs, strict=True)
        before = np.array([item.score + log_prob for item, log_prob in pairs])
        totals = (log_probs + before[:, None]).ravel()
        guide = utterance.guide
        # Some more, among which guides choose.
        count = min(utterance.beam_size * (_MORE if guide else 1), len(totals))
        best = np.argpartition(-totals, count - 1)[:count]
        grown = [item for item in utterance.beam if item.at > items[0].at]
        for index in best.tolist():
            row, unit = divmod(index, log_probs.shape[1])
            item, score, step = items[row], float(totals[index]), steps[row]
            if unit in self._units.silent:
                grown.append(item._replace(score=score, at=item.at + max(1, step), num_here=0))
                continue
            guided = guide.after(item.guided, unit) if guide else item.guided
            score += guided.gain - item.guided.gain
            log_prob = float(log_probs[row, unit])
            grown.append(self._grown(item, unit, log_prob, score, step, _MOST_UNITS, guided))
        grown.sort(key=lambda item: -item.score)
        if self._joint.is_nemo:
            return grown[: utterance.beam_size]
        after: dict[int, _Hypothesis] = {}
        for hypothesis in grown[: utterance.beam_size]:
            if same := after.get(hypothesis.key):
                hypothesis = same._replace(score=float(np.logaddexp(same.score, hypothesis.score)))
            after[hypothesis.key] = hypothesis
        return [*after.values()]
