"""CTC beam search over chunks of many streams: states, batches and n-best lists."""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conch.decoding.beam.arrays import Array, namespace, on_host
from conch.decoding.beam.batch import advance_batch
from conch.decoding.beam.fusion import empty_fusion
from conch.decoding.beam.language import CtcLanguageModel
from conch.decoding.beam.prefix import EMPTY, Tip, emissions_of
from conch.decoding.beam.state import SearchState, stream_chunk
from conch.decoding.beam.step import ROOT_HASH, BeamState, empty_beam, parent_hashes
from conch.decoding.hypothesis import CtcHypothesis
from conch.decoding.options import CtcSearchOptions
from conch.decoding.vocab import BLANK, CtcVocab
from conch.wire.errors import OptionError


class CtcSearch:
    """Searches CTC log probabilities for the best texts; immutable, shared by all streams."""

    def __init__(
        self,
        vocab: CtcVocab,
        language_model: CtcLanguageModel | None = None,
        device: str | None = None,
    ) -> None:
        """Prepare a search.

        Args:
            vocab: of the acoustic model.
            language_model: for streams that ask for it; of the same vocabulary and device.
            device: of torch, as `cuda:0`, where `advance` computes; None is the CPU, by numpy.
        """
        self.vocab = vocab
        self.device = device
        self.language_model = language_model
        # Then one text has one prefix, or two where a space ends it.
        self._spells_once = all(len(text) < 2 for text in vocab.texts)

    def start(self, options: CtcSearchOptions) -> SearchState:
        """Return the state of a stream before its first frame.

        Raises:
            OptionError: there is no language model.
        """
        if options.language_model and self.language_model is None:
            raise OptionError(
                "option 'lm_fusion' takes false here: no language model is loaded; sent: True"
            )
        size = options.beam_size
        fusion = None
        if options.language_model and self.language_model is not None:
            fusion = empty_fusion(size, self.language_model.start, self.device)
        state = BeamState(empty_beam(size, self.vocab.space, self.device), fusion)
        return SearchState(options, state, (EMPTY,) * size)

    def advance(
        self, states: Sequence[SearchState], log_probs: Sequence[NDArray[np.floating[Any]]]
    ) -> list[SearchState]:
        """Return the states after one more chunk of each stream.

        Streams of similar beam sizes share each step; what comes out is what each would find
        alone, in chunks of any lengths.

        Args:
            states: of different streams, at any time of each.
            log_probs: natural log posteriors `[T_i, V]` of each chunk, float.

        Raises:
            ValueError: a chunk's shape does not fit.
        """
        every = [np.asarray(item) for item in log_probs]
        for item in every:
            if item.ndim != 2 or item.shape[1] != len(self.vocab.texts):
                wanted = f"[T, {len(self.vocab.texts)}]"
                raise ValueError(f"log_probs must be {wanted}; is {list(item.shape)}")
        chunks = [stream_chunk(*pair) for pair in zip(states, every, strict=True)]
        found = [chunk.passed() for chunk in chunks]
        groups: dict[int, list[int]] = defaultdict(list)
        for index, chunk in enumerate(chunks):
            if len(chunk.log_probs):
                groups[_size_class(chunk.state.options.beam_size)].append(index)
        for group in groups.values():
            group.sort(key=lambda index: -len(chunks[index].log_probs))
            batch = [chunks[index] for index in group]
            moved = advance_batch(batch, self.vocab, self.language_model, self.device)
            for index, state in zip(group, moved, strict=True):
                found[index] = state
        return found

    def nbest(self, state: SearchState, count: int, is_final: bool) -> list[CtcHypothesis]:
        """Return the best hypotheses of a stream, best first, no text twice.

        Args:
            state: of the stream.
            count: at most so many.
            is_final: nothing follows, so that the last word and the sentence are complete.
        """
        beam = state.beam_state.beam
        am_scores = _numbers(namespace(beam.blank).logaddexp(beam.blank, beam.unit))
        extras = self._extras(state, is_final)
        scores = [sum(pair) for pair in zip(am_scores, extras.ranks, strict=True)]
        texts: dict[str | int, list[int]] = defaultdict(list)
        for slot, key in enumerate(self._text_keys(state)):
            if am_scores[slot] > -math.inf:
                texts[key].append(slot)
        found = []
        for slots in texts.values():
            best = max(slots, key=lambda slot: scores[slot])
            more = _log_sum([am_scores[slot] for slot in slots]) - am_scores[best]
            found.append((scores[best] + more, am_scores[best] + more, best))
        found.sort(key=lambda item: -item[0])
        return [
            self._hypothesis(
                state.tips[slot],
                am_score=am_score,
                lm_score=extras.lm_scores[slot],
                score=score,
            )
            for score, am_score, slot in found[:count]
        ]

    def _hypothesis(self, tip: Tip, **scores: float) -> CtcHypothesis:
        units, frames, log_probs = emissions_of(tip)
        return CtcHypothesis(
            text=self.vocab.text_of(units),
            units=units,
            texts=tuple(self.vocab.texts[unit] for unit in units),
            frames=frames,
            log_probs=log_probs,
            **scores,
        )

    def _extras(self, state: SearchState, is_final: bool) -> "_Extras":
        """Return what the fusion adds to each slot."""
        fusion, options = state.beam_state.fusion, state.options
        if fusion is None:
            nothing = [0.0] * len(state.tips)
            return _Extras(nothing, nothing)
        (rank, lm_score, context), node, _ = fusion
        if options.language_model and self.language_model is not None:
            if is_final:
                log_prob, closes = self.language_model.final(node, context)
                lm_score = lm_score + log_prob
                rank = rank + options.lm_weight * log_prob + options.word_bonus * closes
            else:
                cost = self.language_model.trie.penalties.take(node * len(self.vocab.texts) + BLANK)
                unknown = options.lm_weight * self.language_model.ngram.oov_log_prob
                rank = rank + unknown * cost
        return _Extras(_numbers(rank), _numbers(lm_score))

    def _text_keys(self, state: SearchState) -> Sequence[str | int]:
        """Return, for each slot, what is the same where the text is."""
        if not self._spells_once:
            return [self.vocab.text_of(emissions_of(tip).units) for tip in state.tips]
        beam = state.beam_state.beam
        # The empty prefix counts as ending in a space, but extends none.
        spaced = (beam.last == self.vocab.space) & (beam.hash != ROOT_HASH)
        return _numbers(namespace(beam.hash).where(spaced, parent_hashes(beam), beam.hash))


@dataclass(frozen=True, slots=True)
class _Extras:
    """What the n-gram says of each slot."""

    ranks: list[float]
    lm_scores: list[float]


def _size_class(beam_size: int) -> int:
    """Return what beams share that are searched together: over 16, less than twice each."""
    return max(16, 1 << (beam_size - 1).bit_length())


def _numbers(array: Array) -> list[Any]:
    """Return what an array holds, in a list."""
    numbers: list[Any] = on_host(array).reshape(-1).tolist()
    return numbers


def _log_sum(values: Sequence[float]) -> float:
    largest = max(values)
    return largest + math.log(sum(math.exp(value - largest) for value in values))
