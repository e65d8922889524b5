"""CTC prefix beam search, a frame at a time, for many streams side by side.

A *prefix* is the beginning of a text, as units of the vocabulary. A path has one unit or the blank
for each frame. Many paths write the same prefix, and their probabilities add up (Graves and Jaitly,
"Towards end-to-end speech recognition with recurrent neural networks", 2014; Hannun et al.,
"First-pass large vocabulary continuous speech recognition using bi-directional recurrent DNNs",
2014). A prefix has two *parts*: the sum over its paths that end in a blank, and the sum over those
that end in its last unit. The same unit again goes on in the second part, and is a new unit after
the first.

Each frame is searched in four stages:

1. `_grow`: every prefix stays, by a blank or because its last unit goes on, and grows by every unit
   that is possible in the frame.
2. `_merge`: a prefix that grows into another one of the beam adds to that one.
3. `fusion.ranked`: the n-gram is added, for streams that use it.
4. `_choose` and `_kept`: the best are kept.

Invariants:

- The prefixes of a stream are in `K` slots, best first. 64-bit hashes tell them apart.
- The two parts are ranked separately, and each of the best takes a slot. Both parts of a prefix
  are kept in the slot of the likelier one. The slot of the other stays *empty*: its log
  probabilities are -inf. A part that is worse than every part kept is dropped.
- A space at the beginning or after a space adds nothing to a text: the prefix stays.

Shapes, for `B` streams and `V` units: what a prefix has once is `[B, 1, K]`. What a frame makes of
prefixes is `[B, rows, K]`, and an element of it is a *cell*. Row 0 has the likelier part of each
prefix that stays, row 1 its other part, and each row from 2 the prefixes grown by one unit. A
*place* is the index of a slot, and a cell's index is its own, both counted through all streams.
Scores are natural logarithms, float64.

`tests/support/ctc_reference.py` has the same search in thirty lines, for one stream.
"""

import math
from typing import NamedTuple

import numpy as np

from conch.decoding.beam.arrays import Array, first_true, largest, namespace, placed
from conch.decoding.beam.frames import Chunk, Frame, laid_out
from conch.decoding.beam.fusion import ROUNDING, Fusion, FusionState, ranked, selected, superseded
from conch.decoding.beam.prefix import HASH_MULTIPLIER, Step, Trace, traced
from conch.decoding.vocab import BLANK

_NEVER = -math.inf
# Hashes wrap around at 64 bits. The multiplier is odd: its inverse gives back the hash before.
_INVERSE = pow(HASH_MULTIPLIER, -1, 2**64)
_INVERSE -= 2**64 if _INVERSE >= 2**63 else 0
ROOT_HASH = 0x2545F4914F6CDD1D
_EMPTY_HASH = 2


class Beam(NamedTuple):
    """The prefixes of `B` streams in `K` slots, best first; every field is `[B, 1, K]`."""

    blank: Array
    """float64: log probability of the paths that end in a blank."""
    unit: Array
    """float64: log probability of the paths that end in the last unit."""
    hash: Array
    """int64: of the prefix' units; of an empty slot one that no prefix has."""
    last: Array
    """int64: the last unit; of the empty prefix the space, or the blank where there is none."""

    def is_alive(self) -> Array:
        """Return which slots hold a prefix, bool `[B, 1, K]`."""
        return namespace(self.blank).maximum(self.blank, self.unit) > _NEVER


class BeamState(NamedTuple):
    """The beam after a frame, and what the n-gram knows of its prefixes."""

    beam: Beam
    fusion: FusionState | None


class _Growth(NamedTuple):
    """What becomes of every prefix; several of these may be the same prefix."""

    stay_blank: Array
    """float64 `[B, 1, K]`: it stays by a blank."""
    stay_unit: Array
    """float64 `[B, 1, K]`: it stays by its last unit going on."""
    scores: Array
    """float64 `[B, rows, K]`: it grows; -inf in the rows where it stays."""


class _Merged(NamedTuple):
    """What becomes of every prefix; each is there once."""

    sources: Array
    """int64 `[B, 1, K]`: the cell of the parent that grew into this prefix; 0 without one."""
    arriving: Array
    """float64 `[B, 1, K]`: the score of that cell."""
    stay_unit: Array
    """float64 `[B, 1, K]`: that of `_Growth`, plus what arrives."""
    scores: Array
    """float64 `[B, rows, K]`: of all rows; -inf where a prefix was merged into another cell."""


class _Choice(NamedTuple):
    """The best cells of each stream, best first; every field is `[B, 1, K]`."""

    scores: Array
    """float64: ranks; after `_acoustic`, acoustic scores."""
    bound: Array
    """float64, also `[B, 1, 1]`: the least score with which a part of the prefix is kept."""
    cells: Array
    """int64: in `[0, B * rows * K)`."""
    places: Array
    """int64: where the prefix was before the frame, in `[0, B * K)`."""
    units: Array
    """int64: what it grows by; the blank where it stays."""
    is_grown: Array
    """bool: it grows."""
    is_moved: Array
    """bool: it grows, or the cell is the less likely part of a prefix that stays."""
    is_empty: Array
    """bool: the cell is impossible, or not to be kept."""


def empty_beam(size: int, space: int, device: str | None) -> Beam:
    """Return the beam of one stream before its first frame, `[1, 1, size]`: the empty prefix.

    Args:
        size: slots.
        space: the unit that is a space, or -1.
        device: as in `arrays.placed`.
    """
    never = np.full((1, 1, size), _NEVER)
    blank, hashes = never.copy(), np.full((1, 1, size), _EMPTY_HASH)
    blank[..., 0] = 0.0
    hashes[..., 0] = ROOT_HASH
    # The empty prefix is as if a space had been said before: another adds nothing.
    last = np.full((1, 1, size), max(space, BLANK))
    return Beam(*(placed(item, device) for item in (blank, never, hashes, last)))


def parent_hashes(beam: Beam) -> Array:
    """Return the hash of each prefix without its last unit; of the empty one, of none."""
    return (beam.hash - beam.last) * _INVERSE


def advance_frames(
    state: BeamState, chunk: Chunk, fusion: Fusion | None
) -> tuple[list[BeamState], Trace]:
    """Advance a beam by the frames of a chunk.

    Args:
        state: before them; with a fusion if there is one.
        chunk: of the same streams.
        fusion: of the streams; None if none uses the n-gram.

    Returns:
        The state after each of the chunk's ends, and where its prefixes come from.
    """
    size = state.beam.last.shape[2]
    states, steps = [], []
    # -inf less -inf is NaN, which compares as false with everything.
    with np.errstate(invalid="ignore"):
        for number, frame in enumerate(laid_out(chunk, size), start=1):
            state, step = _advance(state, frame, chunk, fusion)
            steps.append(step)
            if number in chunk.ends:
                states.append(state)
    return states, traced(steps)


def _advance(
    state: BeamState, frame: Frame, chunk: Chunk, fusion: Fusion | None
) -> tuple[BeamState, Step]:
    """Return the state after a frame, and what the frame did."""
    beam, fused = state.beam, state.fusion
    growth = _grow(beam, frame)
    merged = _merge(beam, growth, frame)
    if fusion is None or fused is None:
        choice = _choose(merged.scores, frame, chunk.limits)
    else:
        ranks = ranked(merged.scores, frame, chunk.limits, fused, fusion)
        choice = _choose(ranks.scores, frame, chunk.limits)
        fused = selected(choice.places, choice.units, ranks.closed, fused, fusion)
        choice = _acoustic(choice, growth, merged, fused, fusion)
    step = Step(
        choice.places,
        choice.units,
        beam.last,
        merged.sources,
        merged.arriving,
        growth.stay_blank,
        growth.stay_unit,
    )
    return BeamState(_kept(beam, growth, merged, choice), fused), step


def _grow(beam: Beam, frame: Frame) -> _Growth:
    """Let every prefix stay, and grow by every unit that is possible."""
    xp = namespace(beam.blank)
    total = xp.logaddexp(beam.blank, beam.unit)
    repeated, going_on = beam.blank, beam.unit
    if frame.space is not None:
        in_space = beam.last == frame.space
        repeated = xp.where(in_space, _NEVER, repeated)
        going_on = xp.where(in_space, total, going_on)
    # A unit twice in a row needs a blank between.
    scores = xp.where(frame.units == beam.last, repeated, total)
    scores += frame.growth
    again = frame.log_probs.take(beam.last + frame.first_units)
    return _Growth(total + frame.blank, going_on + again, scores)


def _merge(beam: Beam, growth: _Growth, frame: Frame) -> _Merged:
    """Add what grows into another prefix of the beam to that prefix."""
    xp = namespace(beam.hash)
    parents = parent_hashes(beam)
    slots = first_true(parents.swapaxes(1, 2) == beam.hash)[:, None]
    has_parent = beam.hash.take(slots + frame.first_places) == parents
    row_starts = frame.row_starts.take(beam.last + frame.first_units)
    # The first cell is still impossible: it stands for no parent.
    sources = xp.where(has_parent, row_starts + slots, 0)
    scores = growth.scores
    cells = scores.reshape(-1)
    arriving = cells.take(sources)
    cells[sources] = _NEVER
    stay_unit = xp.logaddexp(growth.stay_unit, arriving)
    xp.maximum(growth.stay_blank, stay_unit, out=scores[:, :1])
    xp.minimum(growth.stay_blank, stay_unit, out=scores[:, 1:2])
    return _Merged(sources, arriving, stay_unit, scores)


def _choose(ranks: Array, frame: Frame, limits: Array | None) -> _Choice:
    """Choose the best cells, best first.

    Args:
        ranks: float64 `[B, rows, K]`.
        frame: that they are of.
        limits: as in `frames.Chunk`.
    """
    streams, height, size = ranks.shape
    xp = namespace(ranks)
    # Of two parts that are alike the second could be kept alone, and with it no part.
    likelier, other = ranks[:, :1], ranks[:, 1:2]
    other[:] = xp.where(other == likelier, xp.nextafter(other, xp.full_like(other, _NEVER)), other)
    best, cells = largest(ranks.reshape(streams, 1, -1), size)
    worst = best[:, :, -1:]
    if limits is not None:
        worst = xp.amin(xp.where(limits, math.inf, best), axis=2)[:, None]
        best[limits] = _NEVER
    rows = cells // size
    units = frame.units.take(rows)
    return _Choice(
        scores=best,
        bound=worst,
        cells=cells,
        places=cells - rows * size + frame.first_places,
        units=units,
        is_grown=units != BLANK,
        is_moved=cells >= frame.first_places * height + size,
        is_empty=best == _NEVER,
    )


def _acoustic(
    choice: _Choice, growth: _Growth, merged: _Merged, fused: FusionState, fusion: Fusion
) -> _Choice:
    """Return a choice with acoustic scores in place of ranks, without superseded prefixes.

    Args:
        choice: by ranks.
        growth: of all prefixes.
        merged: of all prefixes.
        fused: of the chosen cells.
        fusion: of the streams.
    """
    scores = merged.scores.take(choice.cells)
    # What was added to a cell's acoustic score applies to both parts of its prefix.
    bound = scores - choice.scores + (choice.bound - ROUNDING)
    is_empty = choice.is_empty
    if fusion.prune_history:
        in_blank = (scores == growth.stay_blank.take(choice.places)) & ~choice.is_grown
        is_empty = is_empty | superseded(fused, in_blank, fusion)
    return choice._replace(scores=scores, bound=bound, is_empty=is_empty)


def _kept(beam: Beam, growth: _Growth, merged: _Merged, choice: _Choice) -> Beam:
    """Return the beam of the chosen cells."""
    xp = namespace(choice.scores)
    blank, unit = growth.stay_blank.take(choice.places), merged.stay_unit.take(choice.places)
    blank[(blank < choice.bound) | choice.is_moved] = _NEVER
    unit[(unit < choice.bound) | choice.is_moved] = _NEVER
    unit = xp.where(choice.is_grown, choice.scores, unit)
    hashes, last = beam.hash.take(choice.places), beam.last.take(choice.places)
    # The slot of a less likely part is empty: no prefix has the hash of growth by the blank.
    hashes = xp.where(choice.is_moved, hashes * HASH_MULTIPLIER + choice.units, hashes)
    blank[choice.is_empty] = _NEVER
    unit[choice.is_empty] = _NEVER
    hashes[choice.is_empty] = _EMPTY_HASH
    return Beam(blank, unit, hashes, xp.where(choice.is_grown, choice.units, last))
