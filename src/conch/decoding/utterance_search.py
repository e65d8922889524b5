"""The search of one utterance: its best path, or a beam or a decoding graph with hotwords."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from conch.component import FloatArray, IntArray
from conch.decoding.beam import BeamHypothesis, BeamSearch
from conch.decoding.graph.search import DecodingGraph, WfstConfig, WfstHypothesis, WfstStream
from conch.decoding.hotwords.placing import HotwordFinder, Reading, beam_reading
from conch.decoding.hypothesis import AlignedWord, CtcHypothesis, unit_runs
from conch.decoding.streaming_decoder import Search
from conch.decoding.vocab import CtcVocab
from conch.wire.joining import joined_text


class LocalAgreement:
    """The words of one utterance that two texts in a row agree on.

    It serves a search that does not say which of its words are stable. Local agreement (Liu et al.,
    2020, https://arxiv.org/abs/2005.11185; Macháček et al., 2023, https://arxiv.org/abs/2307.14743)
    keeps the words with which two best texts in a row begin, whatever the search finds later.
    """

    def __init__(self) -> None:
        self.kept: tuple[AlignedWord, ...] = ()
        self._last: tuple[AlignedWord, ...] = ()

    @property
    def text(self) -> str:
        return joined_text(word.text for word in self.kept)

    @property
    def end_frame(self) -> int:
        return self.kept[-1].end_frame if self.kept else 0

    def update(
        self, words: Sequence[AlignedWord], most_frame: float = math.inf
    ) -> tuple[AlignedWord, ...]:
        """Take the words of the next best text; return the words to show.

        The last word of a text may still grow and is not kept yet. Nor are words that end after
        `most_frame`: they may change in the search itself.
        """
        shown = self.spliced(words)
        agreed = 0
        for one, other in zip(shown[:-1], self._last, strict=False):
            if one.text != other.text or one.end_frame > most_frame:
                break
            agreed += 1
        if agreed > len(self.kept):
            self.kept = shown[:agreed]
        self._last = shown
        return shown

    def spliced(self, words: Sequence[AlignedWord]) -> tuple[AlignedWord, ...]:
        """Return the kept words, followed by those of `words` that come after them."""
        # Compare the middle of words: the frames of the same word differ from text to text.
        rest = (word for word in words if word.start_frame + word.end_frame > 2 * self.end_frame)
        return (*self.kept, *rest)


class UtteranceSearch(Search, Protocol):
    def advance(self, log_probs: FloatArray) -> None:
        """Take the next frames, float32 `[T, vocab]`."""


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
        return joined_text(self._vocab.complete(self.best().units))

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


class _AgreedUtterance:
    """A search whose texts may get hotwords, and keep the words that were sent as stable."""

    def __init__(self, search: BeamSearch | WfstStream, hotwords: HotwordFinder | None) -> None:
        self._advance, self._hotwords = search.advance, hotwords
        self._agreement = LocalAgreement()

    def advance(self, log_probs: FloatArray) -> None:
        if self._hotwords is not None:
            self._hotwords.advance(log_probs)
        self._advance(log_probs)

    def _agreed(
        self, hypotheses: Sequence[CtcHypothesis], *, is_final: bool, most_frame: float = math.inf
    ) -> list[CtcHypothesis]:
        """Return hypotheses with the words that were sent as stable, best first, each text once."""
        agreement = self._agreement
        texts: dict[str, CtcHypothesis] = {}
        for rank, item in enumerate(sorted(hypotheses, key=lambda item: -item.score)):
            is_update = rank == 0 and not is_final
            words = (
                agreement.update(item.words, most_frame)
                if is_update
                else agreement.spliced(item.words)
            )
            text = joined_text(word.text for word in words)
            texts.setdefault(text, replace(item, text=text, words=words))
        if self._hotwords is not None:
            self._hotwords.kept_frames = agreement.end_frame
        return list(texts.values())


class BeamUtterance(_AgreedUtterance):
    def __init__(self, search: BeamSearch, hotwords: HotwordFinder | None = None) -> None:
        super().__init__(search, hotwords)
        self._search = search

    def nbest(self, count: int, *, is_final: bool) -> list[CtcHypothesis]:
        items = self._search.nbest(count, is_final=is_final)
        if self._hotwords is None:
            return [*items]
        frames, search = self._hotwords.frames, self._search
        settings = search.options, search.language_model
        hypotheses = [
            self._hotwords.rewrite(item, beam_reading(item, frames, *settings)) for item in items
        ]
        # Words after these may change in the beam itself.
        certain = items[0].words[: len(search.stable_words())]
        most_frame = math.inf if is_final else certain[-1].end_frame if certain else 0
        return self._agreed(hypotheses, is_final=is_final, most_frame=most_frame)

    def stable_text(self) -> str:
        """Return the beam's stable words; with hotwords, those that two texts in a row agree on."""
        return self._search.stable_text() if self._hotwords is None else self._agreement.text


class GraphUtterance(_AgreedUtterance):
    """Searches by `WfstStream`, which does not say what all paths share: see `LocalAgreement`."""

    def __init__(
        self,
        graph: DecodingGraph,
        config: WfstConfig,
        hotwords: HotwordFinder | None = None,
        *,
        has_lattice: bool = False,
    ) -> None:
        """`lattice_text` needs `has_lattice`."""
        self._stream = WfstStream(graph, config, has_graph_scores=hotwords is not None)
        super().__init__(self._stream, hotwords)
        self.has_lattice = has_lattice
        self._lm_weight = 1 / config.acoustic_scale
        self._word_bonus = graph.word_bonus / config.acoustic_scale

    def nbest(self, count: int, *, is_final: bool) -> list[CtcHypothesis]:
        """Return one hypothesis while the utterance goes on, then at most `count`."""
        items: Sequence[WfstHypothesis] = (
            self._stream.finish(count, has_lattice=self.has_lattice)
            if is_final
            else [self._stream.best()]
        )
        hypotheses: Sequence[CtcHypothesis] = items
        if self._hotwords is not None:
            hypotheses = [self._hotwords.rewrite(item, self._reading(item)) for item in items]
        return self._agreed(hypotheses, is_final=is_final)

    def stable_text(self) -> str:
        return self._agreement.text

    def lattice_text(self) -> str:
        return self._stream.lattice_text()

    def _reading(self, item: WfstHypothesis) -> Reading:
        scores = item.am_scores, item.graph_scores
        return Reading(item.words, *scores, self._lm_weight, self._word_bonus)
