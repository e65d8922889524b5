"""CTC prefix beam search, one frame at a time for many streams side by side.

The algorithm is that of Graves (2014) and of Hannun et al., "First-pass large vocabulary
continuous speech recognition using bi-directional recurrent DNNs" (2014): a prefix carries the
log probability of its paths that end in a blank and of those that end in its last unit, so that
paths of one text add up. Prefixes are told apart by 64-bit hashes of their units.

Texts are told apart as words: a space at the beginning or after a space adds nothing, so paths
with such spaces belong to the prefix without them.
"""

import functools
import math
import warnings
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from conch.decoding.beam.fusion import (
    FusionState,
    FusionTables,
    FusionWeights,
    copied,
    ranked,
    selected,
    superseded,
)
from conch.decoding.beam.prefix import Steps
from conch.decoding.vocab import BLANK

_NEVER = -math.inf
# Hashes wrap around at 64 bits. The multiplier is odd, so that its inverse gives back the hash
# of the prefix before.
_MULTIPLIER = 6364136223846793005
_INVERSE = pow(_MULTIPLIER, -1, 2**64)
_INVERSE -= 2**64 if _INVERSE >= 2**63 else 0
ROOT_HASH = 0x2545F4914F6CDD1D
_DEAD_HASH = 2


class Beam(NamedTuple):
    """The prefixes of `B` streams in `K` slots each, best first; every field is `[B, K]`."""

    blank: Tensor
    """float64: log probability of the prefix' paths that end in a blank."""
    unit: Tensor
    """float64: log probability of the prefix' paths that end in its last unit."""
    peak: Tensor
    """float64: the best log posterior of the last unit since it was emitted."""
    hash: Tensor
    """int64."""
    last: Tensor
    """int64: the last unit; of the empty prefix the space."""
    emission: Tensor
    """int64: which emission of the chunk the last unit is, as in `ctc_prefix.Trace`."""


class Moment(NamedTuple):
    """Everything about the prefixes after a frame."""

    beam: Beam
    fusion: FusionState | None


def empty_beam(size: int, space: int, device: torch.device) -> Beam:
    """Return the beam of one stream before its first frame, `[1, size]`: the empty prefix.

    Args:
        size: slots.
        space: the unit that is a space, or -1.
        device: where to.
    """
    never = torch.full((1, size), _NEVER, dtype=torch.float64, device=device)
    zeros = torch.zeros(1, size, dtype=torch.int64, device=device)
    blank, hashes = never.clone(), zeros + _DEAD_HASH
    blank[0, 0] = 0.0
    hashes[0, 0] = ROOT_HASH
    # The empty prefix is as if a space had been said before: another adds nothing.
    last = zeros + max(space, BLANK)
    return Beam(blank, never, never, hashes, last, zeros)


def parent_hashes(beam: Beam) -> Tensor:
    """Return the hash of each prefix without its last unit; of the empty one, of none."""
    return (beam.hash - beam.last) * _INVERSE


def _advance(
    beam: Beam,
    fusion: FusionState | None,
    log_probs: Tensor,
    ends: list[int],
    first: int,
    space: int,
    limits: Tensor | None,
    tables: FusionTables | None,
    weights: FusionWeights | None,
    multiplier: int,
    inverse: int,
    dead_hash: int,
) -> tuple[list[list[Tensor]], list[list[Tensor]]]:
    never = -math.inf
    streams, size = beam.last.shape
    other, device = log_probs.shape[2], log_probs.device
    starts = (torch.arange(streams, device=device) * size).unsqueeze(1)
    # Constants lie in tensors, and masks are filled in place: both cost half of the other way.
    impossible = torch.full((streams, size), never, dtype=torch.float64, device=device)
    # Each prefix has a row of columns in each frame. The first is the prefix itself, or the
    # likelier part of it: paths that end in a blank, and those that end in the last unit, take a
    # slot each. The second is the other part. Then come its extensions, only those possible.
    possible = log_probs > never
    possible.select(2, 0).fill_(False)
    counts: list[int] = possible.sum(2).amax(1).tolist()
    column = (possible.cumsum(2) + 1) * possible
    shape = [log_probs.shape[0], streams, max(counts) + 2]
    extending = torch.full(shape, never, dtype=log_probs.dtype, device=device)
    extending.scatter_(2, column, log_probs).select(2, 0).fill_(never)
    units = torch.arange(other, device=device).expand_as(log_probs)
    units = torch.zeros(shape, dtype=torch.int64, device=device).scatter_(2, column, units)
    units.select(2, 0).fill_(0)
    units.select(2, 1).fill_(other)
    blank_frames = log_probs.narrow(2, 0, 1)
    openings: list[Tensor] = []
    opening_bounds: list[Tensor] = []
    if tables is not None and weights is not None and fusion is not None:
        opening = tables.opening.take(units)
        best_opening = extending.masked_fill(~opening, never).amax(2, keepdim=True)
        openings += opening.unsqueeze(2).unbind()
        # Rounding must not make a bound of what is equal to it.
        opening_bounds += (best_opening + weights.word_bonus.narrow(1, 0, 1) + 1e-6).unbind()
        fusion = copied(fusion)  # what is looked up is written into it
    renewed_id = torch.arange(size, device=device).unsqueeze(0) + (size + 2 * size * first)
    moments: list[list[Tensor]] = []
    steps = Steps([], [], [], [], [], [])

    blank, unit, peak, hashes, last, emission = beam
    every_frame, every_blank = log_probs.unbind(), blank_frames.unbind()
    every_extension, every_unit, every_column = extending.unbind(), units.unbind(), column.unbind()
    for t in range(log_probs.shape[0]):
        frame, unit_at, width = every_frame[t], every_unit[t], counts[t] + 2
        total = torch.logaddexp(blank, unit)
        again = frame.gather(1, last)
        column_of_last = every_column[t].gather(1, last)
        in_space = last == space
        stay_blank = total + every_blank[t]
        stay_unit = torch.where(in_space, total, unit).add_(again)
        extension = every_extension[t].narrow(1, 0, width)
        grown = total.unsqueeze(2) + extension.unsqueeze(1)
        # A unit twice in a row needs a blank between.
        repeated = torch.where(in_space, impossible, blank).add_(again)
        grown.scatter_(2, column_of_last.unsqueeze(2), repeated.unsqueeze(2))
        if space < 0:  # the empty prefix' last unit is the blank
            grown.select(2, 0).fill_(never)
        flat = grown.view(streams, -1)

        # What reaches a prefix of the beam as the extension of another belongs to it. The place
        # is in a first column, impossible as yet, where the other is not in the beam.
        parents = (hashes - last).mul_(inverse)
        is_parent = parents.unsqueeze(2) == hashes.unsqueeze(1)
        has_parent, parent_slot = is_parent.max(2)
        place = torch.add(column_of_last, parent_slot, alpha=width)
        place.masked_fill_(has_parent.logical_not_(), 0)
        arriving = flat.gather(1, place)
        flat.scatter_(1, place, impossible)
        # The emission that most of the probability came in by is the one that counts.
        renewed = arriving > torch.maximum(stay_blank, stay_unit)
        stay_unit = torch.logaddexp(stay_unit, arriving)
        torch.maximum(stay_blank, stay_unit, out=grown.select(2, 0))
        torch.minimum(stay_blank, stay_unit, out=grown.select(2, 1))

        ranks = grown
        if tables is not None and weights is not None and fusion is not None:
            ranks = ranked(
                grown,
                total,
                unit_at.narrow(1, 0, width).unsqueeze(1),
                openings[t].narrow(2, 0, width),
                opening_bounds[t],
                limits,
                fusion,
                tables,
                weights,
            )
        best, choice = ranks.view(streams, -1).topk(size)
        slot = choice.div(width, rounding_mode="floor")
        at = torch.sub(choice, slot, alpha=width)
        added = unit_at.gather(1, at)
        rows = slot + starts
        is_moved, extended = at > 0, at > 1
        is_other = is_moved ^ extended
        worst = best.narrow(1, size - 1, 1)
        if limits is not None:
            worst = best.masked_fill(limits, math.inf).amin(1, keepdim=True)
            best.masked_fill_(limits, never)
            is_moved, is_other = is_moved | limits, is_other | limits
        blank, unit = stay_blank.take(rows), stay_unit.take(rows)
        if tables is not None and weights is not None and fusion is not None:
            acoustic = flat.gather(1, choice)
            fusion = selected(rows, extended, added, fusion, tables, weights, multiplier)
            # Without what both parts are ranked by besides; rounding must not lose the last kept.
            worst = (acoustic - best).add_(worst - 1e-6)
            best = acoustic
            if tables.prune_history:
                in_blank = (acoustic == blank).logical_and_(at < 2)
                gone = superseded(fusion, in_blank, tables, weights)
                is_moved, is_other = is_moved | gone, is_other | gone
        # Of a prefix' two parts, one that is worse than all that is kept is lost; the other part,
        # if it is kept, joins the likelier one and leaves its slot empty.
        blank.masked_fill_((blank < worst).logical_or_(is_moved), never)
        unit = torch.where(extended, best, unit.masked_fill_(unit < worst, never))
        unit.masked_fill_(is_other, never)

        steps.emission.append(emission)
        steps.peak.append(peak)
        steps.last.append(last)
        steps.parent_slot.append(parent_slot)
        steps.rows.append(rows)
        steps.added.append(added)
        emission = torch.where(renewed, renewed_id, emission).take(rows)
        emission = torch.where(extended, renewed_id + size, emission)
        renewed_id = renewed_id + 2 * size
        peak = torch.where(renewed, again, torch.maximum(peak, again)).take(rows)
        peak = torch.where(extended, extension.gather(1, at), peak)
        taken = hashes.take(rows)
        hashes = torch.where(extended, torch.add(added, taken, alpha=multiplier), taken)
        hashes.masked_fill_(torch.maximum(blank, unit) == never, dead_hash)
        last = torch.where(extended, added, last.take(rows))
        if t + 1 in ends:
            columns = [blank, unit, peak, hashes, last, emission]
            if fusion is not None:
                kept = copied(fusion)
                columns += [kept.prior, kept.lm_score, kept.context]
                columns += [kept.bias, kept.node, kept.hotword, kept.spelling]
            moments.append(columns)
    # Not as named tuples: TorchScript would make a new class of each that it returns.
    return moments, [
        steps.emission,
        steps.peak,
        steps.last,
        steps.parent_slot,
        steps.rows,
        steps.added,
    ]


_Advance = Callable[..., tuple[list[list[Tensor]], list[list[Tensor]]]]


@functools.cache
def _compiled() -> _Advance:
    """Compile `_advance`: without the interpreter between them, small operations take half."""
    with warnings.catch_warnings():
        # torch.compile, which is to take its place, needs a C++ compiler where it runs.
        warnings.simplefilter("ignore", DeprecationWarning)
        compiled: _Advance = torch.jit.script(_advance)
    return compiled


class Chunk(NamedTuple):
    """Frames of some streams, and what holds for all of the streams' frames."""

    log_probs: Tensor
    """float64 `[T, B, V]`."""
    ends: list[int]
    """After how many of these frames a stream ends; T is among them."""
    first: int
    """How many frames of the streams' chunks came before these."""
    space: int
    """The unit that is a space, or -1."""
    limits: Tensor | None
    """bool `[B, K]`, the slots that a stream may not use; None if it may use all."""


def advance_frames(
    moment: Moment,
    chunk: Chunk,
    tables: FusionTables | None = None,
    weights: FusionWeights | None = None,
    compiled: bool = True,
) -> tuple[list[Moment], Steps]:
    """Advance a beam by some frames.

    Args:
        moment: before them; with a fusion if there are tables and weights.
        chunk: the frames of the same streams.
        tables: of the streams.
        weights: of the streams.
        compiled: by TorchScript; the same, faster.

    Returns:
        The beam after each of the ends, and what each frame did.
    """
    function = _compiled() if compiled else _advance
    moments, steps = function(
        moment.beam,
        moment.fusion,
        chunk.log_probs,
        chunk.ends,
        chunk.first,
        chunk.space,
        chunk.limits,
        tables,
        weights,
        _MULTIPLIER,
        _INVERSE,
        _DEAD_HASH,
    )
    width = len(Beam._fields)
    found = [
        Moment(Beam(*item[:width]), FusionState(*item[width:]) if item[width:] else None)
        for item in moments
    ]
    return found, Steps(*steps)
