"""The search of one utterance, by a beam of prefixes or in a decoding graph."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from conch.component.arrays import FloatArray
from conch.decoding.agreement import LocalAgreement
from conch.decoding.beam.search import CtcSearch
from conch.decoding.beam.stable import stable_text
from conch.decoding.graph.search import DecodingGraph, WfstConfig, WfstHypothesis, WfstStream
from conch.decoding.greedy import best_path
from conch.decoding.hypothesis import CtcHypothesis, words_of
from conch.decoding.options import CtcSearchOptions
from conch.wire.result import Word


class Found(NamedTuple):
    """A hypothesis and its words; scores are natural logarithms."""

    text: str
    score: float
    am_score: float
    lm_score: float
    words: tuple[Word, ...]


class UtteranceSearch(Protocol):
    """The search of one utterance."""

    def advance(self, log_probs: FloatArray) -> None:
        """Take the next frames, float32 `[T, vocab]`."""
        ...

    def nbest(self, count: int, *, is_final: bool) -> list[Found]:
        """Return the best hypotheses, best first; no frame may come after the final ones."""
        ...

    def stable_text(self) -> str:
        """Return the words at the beginning of the text that no later frame can change."""
        ...


class BeamUtterance:
    """The search of one utterance by `CtcSearch`."""

    def __init__(self, search: CtcSearch, options: CtcSearchOptions, frame_s: float) -> None:
        """Begin an utterance.

        Raises:
            OptionError: this search cannot do what the options ask for.
        """
        self.shared, self._frame_s = search, frame_s
        self.state = search.start(options)

    def advance(self, log_probs: FloatArray) -> None:
        """See `UtteranceSearch`."""
        (self.state,) = self.shared.advance([self.state], [log_probs])

    def nbest(self, count: int, *, is_final: bool) -> list[Found]:
        """See `UtteranceSearch`."""
        found = self.shared.nbest(self.state, count, is_final)
        return [of_beam(item, self._frame_s) for item in found]

    def stable_text(self) -> str:
        """See `UtteranceSearch`."""
        return stable_text(self.state, self.shared.vocab)


class GraphUtterance:
    """The search of one utterance by `WfstStream`."""

    def __init__(
        self,
        graph: DecodingGraph,
        config: WfstConfig,
        frame_s: float,
        *,
        has_lattice: bool = False,
    ) -> None:
        """Begin an utterance, for whose lattice `lattice_text` is to be asked or not."""
        self._frame_s = frame_s
        self.has_lattice = has_lattice
        self._stream = WfstStream(graph, config)
        self._agreement = LocalAgreement()

    def advance(self, log_probs: FloatArray) -> None:
        """See `UtteranceSearch`."""
        self._stream.advance(log_probs)

    def nbest(self, count: int, *, is_final: bool) -> list[Found]:
        """See `UtteranceSearch`; before the end there is only one hypothesis.

        kaldi-decoder does not tell which words all of its paths share. So words that two texts in
        a row agree on are kept.
        """
        if not is_final:
            best = self._found(self._stream.best())
            return [self._of_words(best, self._agreement.update(best.words))]
        found: dict[str, Found] = {}
        for item in map(self._found, self._stream.finish(count, has_lattice=self.has_lattice)):
            spliced = self._of_words(item, self._agreement.spliced(item.words))
            found.setdefault(spliced.text, spliced)
        return list(found.values())

    def stable_text(self) -> str:
        """See `UtteranceSearch`."""
        return " ".join(word.text for word in self._agreement.kept)

    def lattice_text(self) -> str:
        """Return the lattice after the final hypotheses; see `WfstStream.lattice_text`."""
        return self._stream.lattice_text()

    @staticmethod
    def _of_words(found: Found, words: tuple[Word, ...]) -> Found:
        return found._replace(text=" ".join(word.text for word in words), words=words)

    def _found(self, item: WfstHypothesis) -> Found:
        words = tuple(
            Word(
                word.text,
                word.start_frame * self._frame_s,
                word.end_frame * self._frame_s,
                word.confidence,
            )
            for word in item.words
        )
        return Found(item.text, item.score, item.am_score, item.lm_score, words)


def advance(searches: Sequence[UtteranceSearch], log_probs: Sequence[FloatArray]) -> None:
    """Advance each search by its next frames, float32 `[T_i, vocab]`; beams share steps."""
    beams: dict[CtcSearch, list[tuple[BeamUtterance, FloatArray]]] = {}
    for search, frames in zip(searches, log_probs, strict=True):
        if isinstance(search, BeamUtterance):
            beams.setdefault(search.shared, []).append((search, frames))
        else:
            search.advance(frames)
    for shared, pairs in beams.items():
        states = shared.advance(
            [search.state for search, _ in pairs], [frames for _, frames in pairs]
        )
        for (search, _), state in zip(pairs, states, strict=True):
            search.state = state


def greedy(log_probs: FloatArray, search: CtcSearch, frame_s: float) -> Found:
    """Return the best path of an utterance, float32 `[T, vocab]`."""
    return of_beam(best_path(log_probs, search.vocab), frame_s)


def of_beam(item: CtcHypothesis, frame_s: float) -> Found:
    """Return a beam's hypothesis with its words."""
    return Found(item.text, item.score, item.am_score, item.lm_score, words_of(item, frame_s))
