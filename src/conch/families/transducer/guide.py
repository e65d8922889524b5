"""What guides a search beside the model: hotwords, and the n-gram of shallow fusion."""

from typing import NamedTuple

from conch.decoding.fusion import Fusion, Words
from conch.families.transducer.bias import NOTHING_WRITTEN, Bias, BiasState


class Guided(NamedTuple):
    """What a hypothesis has written, as its guides see it."""

    bias: BiasState = NOTHING_WRITTEN
    words: Words | None = None

    @property
    def gain(self) -> float:
        return self.bias.gain + (self.words.gain if self.words else 0.0)

    @property
    def lm_score(self) -> float:
        """Log probability of the complete words, unweighted; 0 without an n-gram."""
        return self.words.lm_score if self.words else 0.0


class Guide:
    def __init__(self, bias: Bias | None = None, fusion: Fusion | None = None) -> None:
        self._bias, self._fusion = bias, fusion
        self.start = Guided(words=fusion.start if fusion else None)

    def __bool__(self) -> bool:
        return bool(self._bias or self._fusion)

    def after(self, state: Guided, unit: int) -> Guided:
        bias, words = state
        return Guided(
            self._bias.after(bias, unit) if self._bias else bias,
            self._fusion.grown(words, unit) if self._fusion and words else words,
        )

    def finished(self, state: Guided) -> Guided:
        bias, words = state
        return Guided(
            bias.finished(), self._fusion.finished(words) if self._fusion and words else words
        )
