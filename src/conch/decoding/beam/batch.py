"""Streams that are searched together."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

import torch

from conch.decoding.beam.fusion import FusionState, FusionTables, FusionWeights, empty_fusion
from conch.decoding.beam.hotwords import HotwordTables, combined, no_hotwords
from conch.decoding.beam.language import CtcLanguageModel, no_language_model
from conch.decoding.beam.prefix import Trace, linked, traced
from conch.decoding.beam.state import SearchState, StreamChunk
from conch.decoding.beam.step import Beam, Chunk, Moment, advance_frames, empty_beam
from conch.decoding.vocab import CtcVocab


def advance_batch(
    chunks: Sequence[StreamChunk],
    vocab: CtcVocab,
    model: CtcLanguageModel | None,
    device: torch.device,
) -> list[SearchState]:
    """Return the states after these chunks.

    Streams that end sooner leave the batch when a quarter of it has ended; until then they go on
    over nothing, their states taken where they ended.

    Args:
        chunks: one of each stream, at least a frame each, longest first.
        vocab: of the log posteriors.
        model: if any stream may use it.
        device: where to compute.
    """
    lens = [len(chunk.log_probs) for chunk in chunks]
    sizes = [len(chunk.state.prefixes) for chunk in chunks]
    size = max(sizes)
    log_probs = torch.nn.utils.rnn.pad_sequence([chunk.log_probs for chunk in chunks])
    limits = None
    if min(sizes) < size:
        slots = torch.arange(size, device=device)
        limits = slots >= torch.tensor(sizes, device=device)[:, None]
    fusing = _Fusing(chunks, vocab, model, size, device)
    beams = [chunk.state.moment.beam for chunk in chunks]
    beam = _stacked(beams, empty_beam(size, -1, device))
    emission = torch.arange(size, device=device).expand(len(chunks), size)
    moment = Moment(beam._replace(emission=emission), fusing.stacked(size))
    at_end: dict[int, Moment] = {}
    traces = []
    for first, last, streams in _spans(lens):
        ends = sorted({frame - first for frame in lens if first < frame <= last})
        narrowed = moment if streams == len(moment.beam.last) else _rows(moment, streams)
        chunk = Chunk(
            log_probs[first:last, :streams],
            ends,
            first,
            vocab.space,
            None if limits is None else limits[:streams],
        )
        moments, steps = advance_frames(narrowed, chunk, fusing.tables, fusing.weights(streams))
        at_end.update(zip([first + end for end in ends], moments, strict=True))
        moment = moments[-1]
        traces.append(traced(steps, len(chunks)))
    parents, units, peaks = (torch.cat(part).cpu().numpy() for part in zip(*traces, strict=True))
    emissions = {frame: item.beam.emission.tolist() for frame, item in at_end.items()}
    states = []
    for row, (stream, own, frames) in enumerate(zip(chunks, sizes, lens, strict=True)):
        state = stream.state
        before = (*state.prefixes, *state.prefixes[:1] * (size - own))
        trace = Trace(size, parents[:frames, row], units[:frames, row], peaks[:frames, row])
        prefixes = linked(trace, emissions[frames][row][:own], before, stream.frames)
        beam = Beam(*(item[row : row + 1, :own] for item in at_end[frames].beam))
        fusion = fusing.of(row, at_end[frames].fusion, own)
        states.append(
            replace(stream.passed(), moment=Moment(beam, fusion), prefixes=tuple(prefixes))
        )
    return states


class _Fusing:
    """What the streams of a batch need for fusion, if any does."""

    def __init__(
        self,
        chunks: Sequence[StreamChunk],
        vocab: CtcVocab,
        model: CtcLanguageModel | None,
        size: int,
        device: torch.device,
    ) -> None:
        self._states = [chunk.state for chunk in chunks]
        self._device = device
        self.tables: FusionTables | None = None
        if all(state.moment.fusion is None for state in self._states):
            return
        options = [state.options for state in self._states]
        with_words = model is not None and any(item.language_model for item in options)
        nothing = no_hotwords(len(vocab.texts), device)
        automata = {id(item): item for item in self._automata(nothing)}
        hotwords, starts = combined(list(automata.values()))
        places = dict(zip(automata, starts, strict=True))
        self._starts = [places[id(item)] for item in self._automata(nothing)]
        opening = torch.tensor([*vocab.opening, False], device=device)
        model = model or no_language_model(len(vocab.texts), device)
        self.tables = FusionTables(
            with_words,
            any(state.hotwords is not None for state in self._states),
            model.ngram,
            model.lexicon,
            hotwords,
            opening,
            with_words and any(item.prune_history for item in options),
        )
        used = [
            (item.lm_weight, item.word_bonus) if item.language_model else (0.0, 0.0)
            for item in options
        ]
        numbers = torch.tensor(used, dtype=torch.float64, device=device)
        lm_weight, word_bonus = numbers[:, :, None].expand(-1, -1, size).unbind(1)
        letters = torch.tensor([text.strip() != "" for text in (*vocab.texts, "")], device=device)
        uses = torch.tensor([[item.language_model] for item in options], device=device)
        prunes = torch.tensor([[[item.prune_history]] for item in options], device=device)
        slots = torch.arange(size, device=device)
        self._weights = FusionWeights(
            lm_weight.contiguous(),
            word_bonus.contiguous(),
            (numbers[:, :1] * model.ngram.oov_log_prob)[:, :, None],
            uses & letters,
            uses[:, :, None] & prunes & (slots < slots[:, None]),
        )

    def _automata(self, nothing: HotwordTables) -> Iterator[HotwordTables]:
        for state in self._states:
            yield nothing if state.hotwords is None else state.hotwords

    def weights(self, streams: int) -> FusionWeights | None:
        """Return those of the first streams."""
        if self.tables is None:
            return None
        return FusionWeights(*(item[:streams] for item in self._weights))

    def stacked(self, size: int) -> FusionState | None:
        """Return the streams' fusions as one, hotwords' states as in the joined automaton."""
        if self.tables is None:
            return None
        neutral = empty_fusion(size, 0, self._device)
        states = [state.moment.fusion or neutral for state in self._states]
        stacked = _stacked(states, neutral)
        starts = torch.tensor(self._starts, device=self._device)[:, None]
        return stacked._replace(hotword=stacked.hotword + starts)

    def of(self, row: int, fusion: FusionState | None, size: int) -> FusionState | None:
        """Return that of one stream out of that of the batch."""
        if fusion is None or self._states[row].moment.fusion is None:
            return None
        own = FusionState(*(item[..., row : row + 1, :size] for item in fusion))
        return own._replace(hotword=own.hotword - self._starts[row])


_Columns = TypeVar("_Columns", Beam, FusionState)


def _stacked(streams: Sequence[_Columns], nothing: _Columns) -> _Columns:
    """Return the columns of all streams, filled up to the slots of `nothing` with those of it."""
    size = nothing[0].shape[-1]
    columns = []
    for item, filling in zip(zip(*streams, strict=True), nothing, strict=True):
        padded = [
            column
            if column.shape[-1] == size
            else torch.cat([column, filling[..., column.shape[-1] :]], -1)
            for column in item
        ]
        columns.append(torch.cat(padded, -2))
    return type(nothing)(*columns)


def _rows(moment: Moment, streams: int) -> Moment:
    """Return the first streams."""
    fusion = moment.fusion
    return Moment(
        Beam(*(item[:streams] for item in moment.beam)),
        fusion and FusionState(*(item[..., :streams, :] for item in fusion)),
    )


def _spans(lens: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """Yield the first and last frame of each span, and how many streams it is searched for.

    >>> list(_spans([9, 8, 3, 2]))
    [(0, 2, 4), (2, 3, 3), (3, 8, 2), (8, 9, 1)]
    """
    first = 0
    while first < lens[0]:
        streams = sum(item > first for item in lens)
        # The span ends when a quarter of them has.
        last = lens[-1 - (len(lens) - streams) - (max(1, streams // 4) - 1)]
        yield first, last, streams
        first = last
