"""Guides of a search besides the model: hotwords, and the n-gram of shallow fusion."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from conch.decoding.fusion import Fusion, Words
from conch.wire.hotwords import Hotword
from conch.wire.joining import is_within_word

_LETTERS = 10
"""Letters of a phrase that gains its whole weight."""


@dataclass(slots=True, eq=False)
class _Node:
    gain: float = 0.0
    """Nats of the phrase with the largest weight."""
    whole: float = 0.0
    """Nats of the phrase that ends here; 0 without one."""
    children: dict[str, "_Node"] = field(default_factory=dict)


class _Match(NamedTuple):
    node: _Node
    counted: float
    """Nats of a shorter phrase that was complete on the way."""


class BiasState(NamedTuple):
    complete: float = 0.0
    """Nats of all that were written."""
    open: tuple[_Match, ...] = ()
    last: str = " "

    @property
    def gain(self) -> float:
        """Nats by which the hypothesis is preferred now."""
        return self.complete + sum(item.node.gain - item.counted for item in self.open)

    def at_a_boundary(self) -> "BiasState":
        """Return the state where a word ends: phrases that end with it are complete."""
        more = [max(0.0, item.node.whole - item.counted) for item in self.open]
        counted = tuple(
            item._replace(counted=item.counted + gain)
            for item, gain in zip(self.open, more, strict=True)
        )
        return self._replace(complete=self.complete + sum(more), open=counted)

    def finished(self) -> "BiasState":
        return self.at_a_boundary()._replace(open=())


NOTHING_WRITTEN = BiasState()


class Bias:
    """Prefers hypotheses that are writing a hotword, in any case of its letters.

    The letters of a hypothesis run through a trie of the phrases, so that it does not matter into
    which units a phrase is cut. The beginning of a phrase gains its share of the weight at once,
    and loses it where the phrase does not go on. This keeps it in the beam (contextual biasing as
    of Aleksic et al., 2015, and the context graph of icefall and sherpa-onnx).
    """

    def __init__(self, hotwords: Iterable[Hotword], texts: Sequence[str]) -> None:
        """`texts` begin with a space where a word begins."""
        self._root, self._texts = _Node(), texts
        for hotword in hotwords:
            node, num_letters = self._root, 0
            for letter in " ".join(hotword.phrase.lower().split()):
                node = node.children.setdefault(letter, _Node())
                num_letters += letter != " "
                node.gain = max(node.gain, hotword.weight * num_letters / _LETTERS)
            node.whole = max(node.whole, hotword.weight * num_letters / _LETTERS)

    def after(self, state: BiasState, unit: int) -> BiasState:
        for letter in self._texts[unit].lower():
            state = self._after_letter(state, letter)
        return state

    def _after_letter(self, state: BiasState, letter: str) -> BiasState:
        is_space = letter == " "
        begins = not is_space and (state.last == " " or not is_within_word(state.last, letter))
        if is_space or begins:
            state = state.at_a_boundary()
        going = [
            _Match(item.node.children[letter], item.counted)
            for item in state.open
            if letter in item.node.children
        ]
        if begins and letter in self._root.children:
            going.append(_Match(self._root.children[letter], 0.0))
        return BiasState(state.complete, tuple(going), letter)


class Guided(NamedTuple):
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
