"""The best path of a CTC output (Graves et al., 2006): the fastest search, and the poorest."""

import numpy as np

from conch.component import FloatArray, IntArray
from conch.decoding.beam import BeamHypothesis
from conch.decoding.hypothesis import CtcHypothesis, unit_runs
from conch.decoding.vocab import CtcVocab


class GreedySearch:
    """The most probable path of one utterance, with the score of that path alone.

    A beam of one finds the same text, except for ties and for paths that add up.
    """

    def __init__(self, vocab: CtcVocab) -> None:
        self._vocab = vocab
        self._paths: list[IntArray] = []
        self._best: list[FloatArray] = []

    def advance(self, log_probs: FloatArray) -> None:
        """Take the next frames, float32 `[T, vocab]`, natural log."""
        if len(log_probs):
            path = log_probs.argmax(1)
            self._paths.append(path)
            self._best.append(log_probs[np.arange(len(path)), path])

    def nbest(self, count: int, *, is_final: bool) -> list[CtcHypothesis]:
        return [self.best()]

    def stable_text(self) -> str:
        return self._vocab.complete(self.best().units)

    def best(self) -> BeamHypothesis:
        if not self._paths:
            return BeamHypothesis("", (), 0.0, 0.0, 0.0, (), ())
        best = np.concatenate(self._best)
        runs = unit_runs(np.concatenate(self._paths), best)
        units, starts, _, peaks = (item.tolist() for item in runs)
        score = float(best.sum(dtype=np.float64))
        return BeamHypothesis(
            text=self._vocab.text_of(units),
            words=self._vocab.words(zip(units, starts, peaks, strict=True)),
            score=score,
            am_score=score,
            lm_score=0.0,
            units=tuple(units),
            frames=tuple(starts),
        )
