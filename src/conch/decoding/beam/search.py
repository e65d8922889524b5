"""CTC beam search over chunks of many streams: states, batches and n-best lists."""

import functools
import math
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import torch
from torch import Tensor

from conch.decoding.beam.batch import advance_batch
from conch.decoding.beam.fusion import empty_fusion
from conch.decoding.beam.hotwords import HotwordTables, hotword_tables
from conch.decoding.beam.language import CtcLanguageModel
from conch.decoding.beam.prefix import Prefix, emissions_of
from conch.decoding.beam.state import SearchState, StreamChunk, stream_chunks
from conch.decoding.beam.step import ROOT_HASH, Moment, empty_beam, parent_hashes
from conch.decoding.hypothesis import CtcHypothesis
from conch.decoding.options import CtcSearchOptions, Hotword
from conch.decoding.vocab import BLANK, CtcVocab
from conch.wire.errors import OptionError

_LEAST_STREAMS = 4
"""A thread gains nothing from fewer: most of a step's time is not in its streams."""
_HOTWORD_LISTS = 32
"""Whose automata are kept for the next stream with the same."""


class CtcSearch:
    """Searches CTC log probabilities for the best texts; immutable, shared by all streams."""

    def __init__(
        self,
        vocab: CtcVocab,
        language_model: CtcLanguageModel | None = None,
        device: torch.device | str = "cpu",
        threads: int = 1,
    ) -> None:
        """Prepare a search.

        Args:
            vocab: of the acoustic model.
            language_model: for streams that ask for it; of the same vocabulary and device.
            device: where `advance` computes.
            threads: that share a batch; each takes streams of about one length.
        """
        self.vocab = vocab
        self.device = torch.device(device)
        self._model = language_model
        self._threads = threads
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="ctc-search")
        # Then one text has one prefix, or two where a space ends it.
        self._spells_once = all(len(text) < 2 for text in vocab.texts)
        self._hotwords = functools.lru_cache(_HOTWORD_LISTS)(self._new_hotwords)

    def start(self, options: CtcSearchOptions) -> SearchState:
        """Return the state of a stream before its first frame.

        Raises:
            OptionError: a hotword cannot be written in the vocabulary, or there is no language
                model.
        """
        if options.language_model and self._model is None:
            raise OptionError(
                "option 'lm_fusion' takes false here: no language model is loaded; sent: True"
            )
        size = options.beam_size
        hotwords = self._hotwords(options.hotwords) if options.hotwords else None
        fusion = None
        if options.language_model or hotwords:
            context = self._model.start if self._model else 0
            fusion = empty_fusion(size, context, self.device)
        moment = Moment(empty_beam(size, self.vocab.space, self.device), fusion)
        return SearchState(options, moment, (Prefix(None, BLANK, 0, 0.0),) * size, hotwords)

    def _new_hotwords(self, hotwords: tuple[Hotword, ...]) -> HotwordTables:
        return hotword_tables(hotwords, self.vocab, self.device)

    @torch.inference_mode()
    def advance(
        self, states: Sequence[SearchState], log_probs: Sequence[Tensor]
    ) -> list[SearchState]:
        """Return the states after one more chunk of each stream.

        Streams of similar beam sizes share each step; what comes out is what each would find
        alone, in chunks of any lengths.

        Args:
            states: of different streams, at any time of each.
            log_probs: natural log posteriors `[T_i, V]` of each chunk, float, on any device.

        Raises:
            ValueError: a chunk's shape does not fit.
        """
        for item in log_probs:
            if item.ndim != 2 or item.shape[1] != len(self.vocab.texts):
                wanted = f"[T, {len(self.vocab.texts)}]"
                raise ValueError(f"log_probs must be {wanted}; is {list(item.shape)}")
        chunks = stream_chunks(states, [item.to(self.device) for item in log_probs])
        found = [chunk.passed() for chunk in chunks]
        groups: dict[int, list[int]] = defaultdict(list)
        for index, chunk in enumerate(chunks):
            if len(chunk.log_probs):
                groups[_size_class(chunk.state.options.beam_size)].append(index)
        parts: list[list[int]] = []
        for group in groups.values():
            group.sort(key=lambda index: -len(chunks[index].log_probs))
            parts += _parts(group, self._threads)
        batches = [[chunks[index] for index in part] for part in parts]
        advanced = map if len(batches) == 1 else self._pool.map
        for part, moved in zip(parts, advanced(self._advance_batch, batches), strict=True):
            for index, state in zip(part, moved, strict=True):
                found[index] = state
        return found

    @torch.inference_mode()
    def _advance_batch(self, chunks: Sequence[StreamChunk]) -> list[SearchState]:
        return advance_batch(chunks, self.vocab, self._model, self.device)

    @torch.inference_mode()
    def nbest(self, state: SearchState, count: int, is_final: bool) -> list[CtcHypothesis]:
        """Return the best hypotheses of a stream, best first, no text twice.

        Args:
            state: of the stream.
            count: at most so many.
            is_final: nothing follows, so that the last word and the sentence are complete.
        """
        beam = state.moment.beam
        am_scores = torch.logaddexp(beam.blank, beam.unit)[0].tolist()
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
        peaks = beam.peak[0].tolist()
        return [
            self._hypothesis(
                state.prefixes[slot],
                peaks[slot],
                am_score=am_score,
                lm_score=extras.lm_scores[slot],
                bias_score=extras.bias_scores[slot],
                score=score,
            )
            for score, am_score, slot in found[:count]
        ]

    def _hypothesis(self, prefix: Prefix, peak: float, **scores: float) -> CtcHypothesis:
        units, frames, log_probs = emissions_of(prefix, peak)
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
        fusion, options = state.moment.fusion, state.options
        if fusion is None:
            nothing = [0.0] * len(state.prefixes)
            return _Extras(nothing, nothing, nothing)
        rank, bias = fusion.prior[0, 0], fusion.bias[0]
        lm_score = torch.zeros_like(bias)
        matched = torch.zeros_like(bias)
        if state.hotwords is not None:
            place = fusion.hotword[0]
            matched = state.hotwords.pending[place, BLANK].double()
            gained = state.hotwords.done[place] if is_final else matched
            rank, bias = rank + gained, bias + gained
        if options.language_model and self._model is not None:
            node, lm_score = fusion.node[0], fusion.lm_score[0, 0]
            if is_final:
                log_prob, closes = self._model.final(node, fusion.context[0, 0])
                lm_score = lm_score + log_prob
                rank = rank + options.lm_weight * log_prob + options.word_bonus * closes
            else:
                cost = self._model.lexicon.penalties[node, BLANK].masked_fill(matched > 0, 0.0)
                unknown = options.lm_weight * self._model.ngram.oov_log_prob
                rank = rank + unknown * cost
        return _Extras(rank.tolist(), lm_score.tolist(), bias.tolist())

    def _text_keys(self, state: SearchState) -> Sequence[str | int]:
        """Return, for each slot, what is the same where the text is."""
        if not self._spells_once:
            return [
                self.vocab.text_of(emissions_of(prefix, 0.0).units) for prefix in state.prefixes
            ]
        beam = state.moment.beam
        # The empty prefix counts as ending in a space, but extends none.
        spaced = (beam.last == self.vocab.space) & (beam.hash != ROOT_HASH)
        keys: list[int] = torch.where(spaced, parent_hashes(beam), beam.hash)[0].tolist()
        return keys


@dataclass(frozen=True, slots=True)
class _Extras:
    """What the n-gram and hotwords say of each slot."""

    ranks: list[float]
    lm_scores: list[float]
    bias_scores: list[float]


def _parts(group: list[int], count: int) -> list[list[int]]:
    """Return a group cut into at most so many parts of neighbours, none of a few streams.

    >>> [len(part) for part in _parts(list(range(20)), 2)]
    [10, 10]
    """
    count = max(1, min(count, len(group) // _LEAST_STREAMS))
    size = -(-len(group) // count)
    return [group[start : start + size] for start in range(0, len(group), size)]


def _size_class(beam_size: int) -> int:
    """Return what beams share that are searched together: over 16, less than twice each."""
    return max(16, 1 << (beam_size - 1).bit_length())


def _log_sum(values: Sequence[float]) -> float:
    largest = max(values)
    return largest + math.log(sum(math.exp(value - largest) for value in values))
