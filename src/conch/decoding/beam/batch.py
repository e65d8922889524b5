"""Streams that are searched together."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from conch.decoding.beam.arrays import Array, namespace, on_host, placed
from conch.decoding.beam.frames import Chunk
from conch.decoding.beam.fusion import Fusion, FusionWeights, empty_fusion
from conch.decoding.beam.language import CtcLanguageModel
from conch.decoding.beam.prefix import Trace, linked
from conch.decoding.beam.state import SearchState, StreamChunk
from conch.decoding.beam.step import BeamState, advance_frames, empty_beam
from conch.decoding.vocab import CtcVocab


def advance_batch(
    chunks: Sequence[StreamChunk],
    vocab: CtcVocab,
    model: CtcLanguageModel | None,
    device: str | None,
) -> list[SearchState]:
    """Return the states after these chunks.

    Args:
        chunks: one of each stream, at least a frame each, longest first.
        vocab: of the log posteriors.
        model: if any stream may use it.
        device: as in `arrays.placed`.
    """
    states = [chunk.state for chunk in chunks]
    size = max(len(state.tips) for state in states)
    before = _stacked(states, size, device)
    fusion = None
    if before.fusion is not None:
        assert model is not None
        fusion = _fusion(states, vocab, model, size, device)
    after, trace = _searched(chunks, vocab, before, fusion, device)
    found = []
    for row, chunk in enumerate(chunks):
        count = len(chunk.log_probs)
        own = _of_stream(after[count], row, chunk.state)
        tips = linked(
            Trace(trace.slots[row, :count], trace.emitted[row, :count]),
            chunk.log_probs,
            chunk.frames,
            chunk.state.tips,
            on_host(own.beam.is_alive()).reshape(-1).tolist(),
        )
        found.append(replace(chunk.passed(), beam_state=own, tips=tuple(tips)))
    return found


def _searched(
    chunks: Sequence[StreamChunk],
    vocab: CtcVocab,
    state: BeamState,
    fusion: Fusion | None,
    device: str | None,
) -> tuple[dict[int, BeamState], Trace]:
    """Return the states of all streams after each frame that one ends with, and the trace.

    Streams that end sooner leave the batch when a quarter of it has ended; until then they go on
    over nothing, their states taken where they ended.
    """
    lens = [len(chunk.log_probs) for chunk in chunks]
    log_probs = np.full((len(chunks), lens[0], len(vocab.texts)), -np.inf)
    for row, chunk in enumerate(chunks):
        log_probs[row, : lens[row]] = chunk.log_probs
    limits = _limits([chunk.state for chunk in chunks], device)
    at_end: dict[int, BeamState] = {}
    traces = []
    for first, last, streams in _spans(lens):
        ends = sorted({count - first for count in lens if first < count <= last})
        span = Chunk(
            log_probs[:streams, first:last].swapaxes(0, 1),
            ends,
            vocab,
            None if limits is None else limits[:streams],
            device,
        )
        found, trace = advance_frames(
            _first_streams(state, streams), span, fusion and fusion.of_first(streams)
        )
        state = found[-1]
        at_end.update(zip([first + end for end in ends], found, strict=True))
        ended = ((0, len(chunks) - streams), (0, 0), (0, 0))
        traces.append([np.pad(item, ended) for item in trace])
    slots, emitted = (np.concatenate(parts, 1) for parts in zip(*traces, strict=True))
    return at_end, Trace(slots, emitted)


def _limits(states: Sequence[SearchState], device: str | None) -> Array | None:
    """Return the slots that a stream may not use, bool `[B, 1, K]`; None if all may use all."""
    sizes = np.array([len(state.tips) for state in states])
    if sizes.min() == sizes.max():
        return None
    return placed(np.arange(sizes.max()) >= sizes[:, None, None], device)


def _fusion(
    states: Sequence[SearchState],
    vocab: CtcVocab,
    model: CtcLanguageModel,
    size: int,
    device: str | None,
) -> Fusion:
    """Return what the streams are searched with, in `size` slots."""
    options = [state.options for state in states]
    has_words = np.array([item.language_model for item in options])[:, None, None]
    prunes = np.array([item.prune_history for item in options])[:, None, None] & has_words
    lm_weight, word_bonus = (
        np.where(has_words, np.array(numbers)[:, None, None], np.zeros(size))
        for numbers in (
            [item.lm_weight for item in options],
            [item.word_bonus for item in options],
        )
    )
    unknown = lm_weight[:, :, :1] * model.ngram.oov_log_prob
    return Fusion(
        model,
        closes_word=placed(np.array(vocab.opening), device),
        prune_history=bool(prunes.any()),
        slots=placed(np.arange(size), device),
        weights=FusionWeights(
            *(placed(item, device) for item in (lm_weight, word_bonus, unknown, has_words, prunes))
        ),
    )


def _stacked(states: Sequence[SearchState], size: int, device: str | None) -> BeamState:
    """Return the states of all streams as one, with `size` slots each.

    Args:
        states: of the streams.
        size: slots, as many as any has or more.
        device: where the states are.
    """
    beam = _joined([state.beam_state.beam for state in states], empty_beam(size, -1, device))
    if all(state.beam_state.fusion is None for state in states):
        return BeamState(beam, None)
    nothing = empty_fusion(size, 0, device)
    fusion = _joined([state.beam_state.fusion or nothing for state in states], nothing)
    return BeamState(beam, fusion)


_Record = TypeVar("_Record")


def _joined(streams: Sequence[_Record], nothing: _Record) -> _Record:
    """Return the records of all streams as one, filled up to the slots of `nothing` with that."""

    def joined(filling: Array, *own: Array) -> Array:
        rows = [
            namespace(filling).concatenate((item, filling[:, :, item.shape[2] :]), 2)
            for item in own
        ]
        return namespace(filling).concatenate(rows)

    record: _Record = _mapped(joined, nothing, *streams)
    return record


def _first_streams(state: BeamState, streams: int) -> BeamState:
    """Return the state of the first streams."""
    if streams == len(state.beam.last):
        return state
    first: BeamState = _mapped(lambda item: item[:streams], state)
    return first


def _of_stream(state: BeamState, row: int, before: SearchState) -> BeamState:
    """Return one stream's own state out of that of all.

    Args:
        state: of all streams.
        row: of the stream.
        before: the stream's state before the chunk.
    """
    size = len(before.tips)
    # Copied: a part of an array keeps the whole of it in memory.
    own: BeamState = _mapped(lambda item: item[row : row + 1, :, :size] + 0, state)
    if before.beam_state.fusion is None:
        return BeamState(own.beam, None)
    return own


def _mapped(function: Callable[..., Array], *records: Any) -> Any:
    """Return a record of what a function makes of the arrays that records of one kind hold."""
    first = records[0]
    if not isinstance(first, tuple):
        return first if first is None else function(*records)
    fields = zip(*records, strict=True)
    return type(first)(*(_mapped(function, *field) for field in fields))


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
