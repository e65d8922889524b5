"""CTC beam search over chunks of many streams: states, batches and n-best lists."""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from conch.decoding.ctc_beam import ROOT_HASH, Beam, advance_frames, empty_beam
from conch.decoding.ctc_hypothesis import CtcHypothesis
from conch.decoding.ctc_options import CtcSearchOptions
from conch.decoding.ctc_prefix import Prefix, Trace, emissions_of, linked
from conch.decoding.ctc_vocab import BLANK, CtcVocab


@dataclass(frozen=True, slots=True)
class SearchState:
    """One stream's search; `advance` makes a new one and leaves the old one as it is."""

    options: CtcSearchOptions
    beam: Beam
    """`[1, beam_size]`, on the search's device."""
    prefixes: tuple[Prefix, ...]
    """Of each slot."""
    frames: int = 0
    """Seen so far."""
    after_blank: bool = False
    """The last frame was a blank above `skip_blank_above`."""


class CtcSearch:
    """Searches CTC log probabilities for the best texts; immutable, shared by all streams."""

    def __init__(self, vocab: Sequence[str], device: torch.device | str = "cpu") -> None:
        """Prepare a search.

        Args:
            vocab: text of each unit; the first is the blank, a space parts words.
            device: where `advance` computes.

        Raises:
            ConfigError: the vocabulary cannot be one.
        """
        self.vocab = CtcVocab(tuple(vocab))
        self.device = torch.device(device)
        self._space = self.vocab.space
        # Then one text has one prefix, or two where a space ends it.
        self._spells_once = all(len(text) < 2 for text in self.vocab.texts)

    def start(self, options: CtcSearchOptions) -> SearchState:
        """Return the state of a stream before its first frame.

        Raises:
            OptionError: the options ask for what this search cannot do.
        """
        beam = empty_beam(options.beam_size, self._space, self.device)
        empty = Prefix(None, BLANK, 0, 0.0)
        return SearchState(options, beam, (empty,) * options.beam_size)

    @torch.inference_mode()
    def advance(
        self, states: Sequence[SearchState], log_probs: Sequence[Tensor]
    ) -> list[SearchState]:
        """Return the states after one more chunk of each stream.

        Streams of similar beam sizes share each step; what comes out is what each would find
        alone, in chunks of any length.

        Args:
            states: of different streams, at any time of each.
            log_probs: natural log posteriors `[T_i, V]` of each chunk, float, any device.

        Raises:
            ValueError: a chunk's shape does not fit.
        """
        for item in log_probs:
            if item.ndim != 2 or item.shape[1] != len(self.vocab.texts):
                wanted = f"[T, {len(self.vocab.texts)}]"
                raise ValueError(f"log_probs must be {wanted}; is {list(item.shape)}")
        chunks = [
            _Chunk(state, item) for state, item in zip(states, log_probs, strict=True)
        ]
        groups: dict[int, list[int]] = defaultdict(list)
        for index, chunk in enumerate(chunks):
            if len(chunk.log_probs):
                groups[_size_class(chunk.state.options.beam_size)].append(index)
        found = [chunk.unmoved() for chunk in chunks]
        for group in groups.values():
            # The longest first, so that those still running are always the first rows.
            group.sort(key=lambda index: -len(chunks[index].log_probs))
            moved = self._advance_group([chunks[index] for index in group])
            for index, state in zip(group, moved, strict=True):
                found[index] = state
        return found

    def _advance_group(self, chunks: Sequence["_Chunk"]) -> list[SearchState]:
        lens = [len(chunk.log_probs) for chunk in chunks]
        sizes = [len(chunk.state.prefixes) for chunk in chunks]
        size = max(sizes)
        log_probs = torch.nn.utils.rnn.pad_sequence(
            [chunk.log_probs.to(self.device, torch.float64) for chunk in chunks]
        )
        beam = _stacked([chunk.state.beam for chunk in chunks], size)
        limits = None
        if min(sizes) < size:
            slots = torch.arange(size, device=self.device)
            limits = slots >= torch.tensor(sizes, device=self.device)[:, None]
        done: list[Beam] = []
        traces = []
        for first, last, streams in _spans(lens):
            done.append(beam.rows(streams, len(beam.last)))
            beam, steps = advance_frames(
                beam.rows(0, streams),
                log_probs[first:last, :streams],
                self._space,
                None if limits is None else limits[:streams],
                None,
                first,
            )
            traces.append(steps.traced(len(chunks)))
        done.append(beam)
        # The spans end with ever fewer streams, the first ones.
        beam = _cat(done[::-1])
        parents, units, peaks = (torch.cat(part).cpu().numpy() for part in zip(*traces, strict=True))
        emissions = beam.emission.tolist()
        states = []
        for row, (chunk, own, frames) in enumerate(zip(chunks, sizes, lens, strict=True)):
            trace = Trace(
                size, parents[:frames, row], units[:frames, row], peaks[:frames, row]
            )
            ends = emissions[row][:own]
            start = (*chunk.state.prefixes, *chunk.state.prefixes[:1] * (size - own))
            moved = beam.rows(row, row + 1).slots(0, own)
            prefixes = linked(trace, ends, start, chunk.frames)
            states.append(replace(chunk.unmoved(), beam=moved, prefixes=tuple(prefixes)))
        return states

    def nbest(self, state: SearchState, count: int, is_final: bool) -> list[CtcHypothesis]:
        """Return the best hypotheses of a stream, best first, no text twice.

        Args:
            state: of the stream.
            count: at most so many.
            is_final: nothing follows: the last word is complete, and the sentence.
        """
        beam = state.beam
        am_scores = torch.logaddexp(beam.blank, beam.unit)[0].tolist()
        scores = am_scores
        peaks = beam.peak[0].tolist()
        texts: dict[str | int, list[int]] = defaultdict(list)
        for slot, key in enumerate(self._keys(state)):
            if am_scores[slot] > -math.inf:
                texts[key].append(slot)
        found = []
        for slots in texts.values():
            best = max(slots, key=lambda slot: scores[slot])
            more = _log_sum([am_scores[slot] for slot in slots]) - am_scores[best]
            found.append((scores[best] + more, am_scores[best] + more, best))
        found.sort(key=lambda item: -item[0])
        hypotheses = []
        for score, am_score, slot in found[:count]:
            units, frames, log_probs = emissions_of(state.prefixes[slot], peaks[slot])
            hypotheses.append(
                CtcHypothesis(
                    text=self.vocab.text_of(units),
                    am_score=am_score,
                    lm_score=0.0,
                    bias_score=0.0,
                    score=score,
                    units=units,
                    texts=tuple(self.vocab.texts[unit] for unit in units),
                    frames=frames,
                    log_probs=log_probs,
                )
            )
        return hypotheses

    def _keys(self, state: SearchState) -> Sequence[str | int]:
        """Return, for each slot, what is the same where the text is."""
        if not self._spells_once:
            return [
                self.vocab.text_of(emissions_of(prefix, 0.0).units) for prefix in state.prefixes
            ]
        beam = state.beam
        # The empty prefix counts as ending in a space, but extends none.
        spaced = (beam.last == self._space) & (beam.hash != ROOT_HASH)
        keys: list[int] = torch.where(spaced, beam.parent, beam.hash)[0].tolist()
        return keys


class _Chunk:
    """One stream's chunk: its frames that are to be searched."""

    def __init__(self, state: SearchState, log_probs: Tensor) -> None:
        self.state = state
        self.log_probs = log_probs
        self.frames: Sequence[int] = range(state.frames, state.frames + len(log_probs))
        self._seen = len(log_probs)
        self._after_blank = state.after_blank
        limit = state.options.skip_blank_above
        if limit < 1 and len(log_probs):
            blank = log_probs[:, BLANK] > math.log(limit)
            before = blank.roll(1)
            before[0] = state.after_blank
            # One of a run stays: it parts equal units.
            kept = (~(blank & before)).nonzero()[:, 0]
            self.log_probs = log_probs[kept]
            self.frames = [state.frames + frame for frame in kept.tolist()]
            self._after_blank = bool(blank[-1])

    def unmoved(self) -> SearchState:
        """Return the state after the chunk, as far as its frames that are not searched go."""
        return replace(
            self.state, frames=self.state.frames + self._seen, after_blank=self._after_blank
        )


def _size_class(beam_size: int) -> int:
    """Return what beams share that search together: none pays for more than twice its slots."""
    return max(16, 1 << (beam_size - 1).bit_length())


def _spans(lens: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """Yield the first and last frame of each span, and how many of the streams have it.

    >>> list(_spans([5, 3, 3]))
    [(0, 3, 3), (3, 5, 1)]
    """
    first = 0
    for streams in range(len(lens), 0, -1):
        if lens[streams - 1] > first:
            yield first, lens[streams - 1], streams
            first = lens[streams - 1]


def _stacked(beams: Sequence[Beam], size: int) -> Beam:
    device = beams[0].last.device
    dead = empty_beam(size, -1, device)
    padded = [
        beam if beam.last.shape[1] == size else _cat((beam, dead.slots(beam.last.shape[1])), 1)
        for beam in beams
    ]
    return replace(
        _cat(padded), emission=torch.arange(size, device=device).expand(len(beams), size)
    )


def _cat(beams: Sequence[Beam], dim: int = 0) -> Beam:
    return Beam(
        *(torch.cat([getattr(beam, item.name) for beam in beams], dim) for item in fields(Beam))
    )


def _log_sum(values: Sequence[float]) -> float:
    largest = max(values)
    return largest + math.log(sum(math.exp(value - largest) for value in values))
