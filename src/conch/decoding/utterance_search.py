"""The search of one utterance, by a beam of prefixes or in a decoding graph, with hotwords."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from conch.component import FloatArray
from conch.decoding.beam import BeamHypothesis, BeamSearch
from conch.decoding.graph.search import DecodingGraph, WfstConfig, WfstHypothesis, WfstStream
from conch.decoding.hotwords.placing import HotwordFinder, Reading, beam_reading
from conch.decoding.hypothesis import AlignedWord, CtcHypothesis
from conch.decoding.streaming_decoder import Search
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
        """The frame after the stable words."""
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
    """The search of one utterance that takes its frames alone."""

    def advance(self, log_probs: FloatArray) -> None:
        """Take the next frames, float32 `[T, vocab]`."""
        ...


class BeamUtterance:
    def __init__(self, search: BeamSearch, hotwords: HotwordFinder | None = None) -> None:
        self._search, self._hotwords = search, hotwords
        self._agreement = LocalAgreement()

    def advance(self, log_probs: FloatArray) -> None:
        if self._hotwords is not None:
            self._hotwords.advance(log_probs)
        self._search.advance(log_probs)

    def nbest(self, count: int, *, is_final: bool) -> list[CtcHypothesis]:
        items = self._search.nbest(count, is_final=is_final)
        if self._hotwords is None:
            return [*items]
        found = [_placed(item, self._hotwords, self._reading(item)) for item in items]
        # Words after these may change in the beam itself.
        certain = items[0].words[: self._search.num_stable_words()]
        most = math.inf if is_final else certain[-1].end_frame if certain else 0
        agreed = _agreed(found, self._agreement, is_final=is_final, most_frame=most)
        self._hotwords.kept_frames = self._agreement.end_frame
        return agreed

    def stable_text(self) -> str:
        """Return the beam's stable words; with hotwords, those that two texts in a row agree on."""
        return self._search.stable_text() if self._hotwords is None else self._agreement.text

    def _reading(self, item: BeamHypothesis) -> Reading:
        assert self._hotwords is not None
        search = self._search
        return beam_reading(item, self._hotwords.frames, search.options, search.language_model)


class GraphUtterance:
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
        self._graph, self._config, self._hotwords = graph, config, hotwords
        self._stream = WfstStream(graph, config, has_graph_scores=hotwords is not None)
        self.has_lattice = has_lattice
        self._agreement = LocalAgreement()

    def advance(self, log_probs: FloatArray) -> None:
        if self._hotwords is not None:
            self._hotwords.advance(log_probs)
        self._stream.advance(log_probs)

    def nbest(self, count: int, *, is_final: bool) -> list[CtcHypothesis]:
        """Return one hypothesis while the utterance goes on, then at most `count`."""
        items: Sequence[WfstHypothesis] = (
            self._stream.finish(count, has_lattice=self.has_lattice)
            if is_final
            else [self._stream.best()]
        )
        found: list[CtcHypothesis] = [*items]
        if self._hotwords is not None:
            found = [_placed(item, self._hotwords, self._reading(item)) for item in items]
        agreed = _agreed(found, self._agreement, is_final=is_final)
        if self._hotwords is not None:
            self._hotwords.kept_frames = self._agreement.end_frame
        return agreed

    def stable_text(self) -> str:
        return self._agreement.text

    def lattice_text(self) -> str:
        return self._stream.lattice_text()

    def _reading(self, item: WfstHypothesis) -> Reading:
        scale = self._config.acoustic_scale
        return Reading(
            item.words,
            item.am_scores,
            item.graph_scores,
            lm_weight=1 / scale,
            word_bonus=self._graph.word_bonus / scale,
        )


def _placed(item: CtcHypothesis, hotwords: HotwordFinder, reading: Reading) -> CtcHypothesis:
    placed = hotwords.placed(reading)
    return CtcHypothesis(
        joined_text(word.text for word in placed.words),
        placed.words,
        item.score + placed.score,
        item.am_score + placed.am_score,
        item.lm_score + placed.lm_score,
    )


def _agreed(
    found: Sequence[CtcHypothesis],
    agreement: LocalAgreement,
    *,
    is_final: bool,
    most_frame: float = math.inf,
) -> list[CtcHypothesis]:
    """Return hypotheses with the words that were sent as stable, best first, each text once."""
    texts: dict[str, CtcHypothesis] = {}
    for place, item in enumerate(sorted(found, key=lambda item: -item.score)):
        is_update = place == 0 and not is_final
        words = (
            agreement.update(item.words, most_frame) if is_update else agreement.spliced(item.words)
        )
        text = joined_text(word.text for word in words)
        texts.setdefault(text, replace(item, text=text, words=words))
    return list(texts.values())
