"""The search of one utterance, by a beam of prefixes or in a decoding graph."""

import math
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple, Protocol

from conch.component.arrays import FloatArray
from conch.decoding.agreement import LocalAgreement
from conch.decoding.beam.search import CtcSearch
from conch.decoding.beam.stable import stable_text
from conch.decoding.graph.search import DecodingGraph, WfstConfig, WfstHypothesis, WfstStream
from conch.decoding.greedy import best_path
from conch.decoding.hotwords.finder import HotwordFinder
from conch.decoding.hotwords.placing import Reading
from conch.decoding.hotwords.readings import reading_of_beam
from conch.decoding.hypothesis import CtcHypothesis, timed_words, words_of
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

    hotwords: HotwordFinder | None
    """Finds the hotwords of the utterance."""

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

    def __init__(
        self,
        search: CtcSearch,
        options: CtcSearchOptions,
        frame_s: float,
        hotwords: HotwordFinder | None = None,
    ) -> None:
        """Begin an utterance.

        Raises:
            OptionError: this search cannot do what the options ask for.
        """
        self.shared, self._frame_s = search, frame_s
        self.state = search.start(options)
        self.hotwords = hotwords
        self._agreement = LocalAgreement()

    def advance(self, log_probs: FloatArray) -> None:
        """See `UtteranceSearch`."""
        if self.hotwords is not None:
            self.hotwords.advance(log_probs)
        (self.state,) = self.shared.advance([self.state], [log_probs])

    def nbest(self, count: int, *, is_final: bool) -> list[Found]:
        """See `UtteranceSearch`."""
        items = self.shared.nbest(self.state, count, is_final)
        found = [of_beam(item, self._frame_s) for item in items]
        if self.hotwords is None:
            return found
        options, model = self.state.options, self.shared.language_model
        placed = []
        for item, plain in zip(items, found, strict=True):
            reading = reading_of_beam(item, self.hotwords.frames, options, model)
            placed.append(_placed(plain, self.hotwords, reading, self._frame_s))
        most_s = math.inf if is_final else self._certain_s(found[0])
        agreed = _agreed(placed, self._agreement, is_final=is_final, most_s=most_s)
        self.hotwords.keep_before(round(self._agreement.end_s / self._frame_s))
        return agreed

    def stable_text(self) -> str:
        """See `UtteranceSearch`.

        What every text of the beam begins with may still become a hotword. So with hotwords the
        words among these count that two texts in a row agree on.
        """
        if self.hotwords is None:
            return stable_text(self.state, self.shared.vocab)
        return self._agreement.text

    def _certain_s(self, best: Found) -> float:
        """Return where the words end with which every text of the beam begins."""
        certain = len(stable_text(self.state, self.shared.vocab).split())
        return best.words[certain - 1].end if certain else 0.0


class GraphUtterance:
    """The search of one utterance by `WfstStream`."""

    def __init__(
        self,
        graph: DecodingGraph,
        config: WfstConfig,
        frame_s: float,
        hotwords: HotwordFinder | None = None,
        *,
        has_lattice: bool = False,
    ) -> None:
        """Begin an utterance, for whose lattice `lattice_text` is to be asked or not."""
        self._frame_s = frame_s
        self._graph, self._config = graph, config
        self._stream = WfstStream(graph, config, has_graph_scores=hotwords is not None)
        self.hotwords = hotwords
        self.has_lattice = has_lattice
        self._agreement = LocalAgreement()

    def advance(self, log_probs: FloatArray) -> None:
        """See `UtteranceSearch`."""
        if self.hotwords is not None:
            self.hotwords.advance(log_probs)
        self._stream.advance(log_probs)

    def nbest(self, count: int, *, is_final: bool) -> list[Found]:
        """See `UtteranceSearch`; before the end there is only one hypothesis.

        kaldi-decoder does not tell which words all of its paths share. So words that two texts in
        a row agree on are kept.
        """
        items = (
            self._stream.finish(count, has_lattice=self.has_lattice)
            if is_final
            else (self._stream.best(),)
        )
        agreed = _agreed([*map(self._found, items)], self._agreement, is_final=is_final)
        if self.hotwords is not None:
            self.hotwords.keep_before(round(self._agreement.end_s / self._frame_s))
        return agreed

    def stable_text(self) -> str:
        """See `UtteranceSearch`."""
        return self._agreement.text

    def lattice_text(self) -> str:
        """Return the lattice after the final hypotheses; see `WfstStream.lattice_text`."""
        return self._stream.lattice_text()

    def _found(self, item: WfstHypothesis) -> Found:
        words = timed_words(item.words, self._frame_s)
        found = Found(item.text, item.score, item.am_score, item.lm_score, words)
        if self.hotwords is None:
            return found
        scale = self._config.acoustic_scale
        reading = Reading(
            item.words,
            item.am_scores,
            item.graph_scores,
            lm_weight=1 / scale,
            word_bonus=self._graph.word_bonus / scale,
        )
        return _placed(found, self.hotwords, reading, self._frame_s)


def _placed(found: Found, hotwords: HotwordFinder, reading: Reading, frame_s: float) -> Found:
    """Return a hypothesis with the hotwords that beat its words."""
    placed = hotwords.placed(reading)
    return Found(
        " ".join(word.text for word in placed.words),
        found.score + placed.score,
        found.am_score + placed.am_score,
        found.lm_score + placed.lm_score,
        timed_words(placed.words, frame_s),
    )


def _agreed(
    found: Sequence[Found],
    agreement: LocalAgreement,
    *,
    is_final: bool,
    most_s: float = math.inf,
) -> list[Found]:
    """Return hypotheses with the words that were told as stable, best first, each text once."""
    best, *others = sorted(found, key=lambda item: -item.score)
    spliced = [agreement.spliced(best.words) if is_final else agreement.update(best.words, most_s)]
    spliced += [agreement.spliced(item.words) for item in others]
    texts: dict[str, Found] = {}
    for item, words in zip((best, *others), spliced, strict=True):
        text = " ".join(word.text for word in words)
        texts.setdefault(text, item._replace(text=text, words=words))
    return list(texts.values())


def advance(
    searches: Sequence[UtteranceSearch], log_probs: Sequence[FloatArray]
) -> list[Exception | None]:
    """Advance each search by its next frames, float32 `[T_i, vocab]`; beams share steps.

    Returns:
        The error of each search, None if it has advanced. A search with an error is of no more use.
    """
    beams: dict[CtcSearch, dict[int, BeamUtterance]] = {}
    for index, search in enumerate(searches):
        if isinstance(search, BeamUtterance):
            beams.setdefault(search.shared, {})[index] = search
    moved: set[int] = set()
    for shared, batch in beams.items():
        with suppress(Exception):  # no state has changed then, and each beam is advanced alone
            states = [beam.state for beam in batch.values()]
            states = shared.advance(states, [log_probs[index] for index in batch])
            for beam, state in zip(batch.values(), states, strict=True):
                beam.state = state
            moved.update(batch)
    errors: list[Exception | None] = []
    for index, (search, frames) in enumerate(zip(searches, log_probs, strict=True)):
        try:
            if index not in moved:
                search.advance(frames)
            elif search.hotwords is not None:
                search.hotwords.advance(frames)
            errors.append(None)
        except Exception as error:
            errors.append(error)
    return errors


def greedy(log_probs: FloatArray, search: CtcSearch, frame_s: float) -> Found:
    """Return the best path of an utterance, float32 `[T, vocab]`."""
    return of_beam(best_path(log_probs, search.vocab), frame_s)


def of_beam(item: CtcHypothesis, frame_s: float) -> Found:
    """Return a beam's hypothesis with its words."""
    return Found(item.text, item.score, item.am_score, item.lm_score, words_of(item, frame_s))
