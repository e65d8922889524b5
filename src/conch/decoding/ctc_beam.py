"""CTC prefix beam search, one frame at a time for many streams side by side.

The algorithm is that of Graves (2014) and of Hannun et al., "First-pass large vocabulary
continuous speech recognition using bi-directional recurrent DNNs" (2014): a prefix carries the
log probability of its paths that end in a blank and of those that end in its last unit, so that
paths of one text add up. Prefixes are told apart by 64-bit hashes of their units.

Texts are told apart as words: a space at the beginning or after a space adds nothing, so paths
with such spaces belong to the prefix without them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Protocol

import torch
from torch import Tensor

from conch.decoding.ctc_vocab import BLANK

_NEVER = -torch.inf
# Hashes wrap around at 64 bits; the multiplier is odd, so no information is lost in it.
_MULTIPLIER = 6364136223846793005
ROOT_HASH, _ROOT_PARENT = 0x2545F4914F6CDD1D, 1
# A slot without a prefix is neither anyone's parent nor anyone's child.
_DEAD_HASH, _DEAD_PARENT = 2, 1


@dataclass(slots=True)
class Beam:
    """The prefixes of `B` streams in `K` slots each, best first; every field is `[B, K]`."""

    blank: Tensor
    """float64: log probability of the prefix' paths that end in a blank."""
    unit: Tensor
    """float64: log probability of the prefix' paths that end in its last unit."""
    peak: Tensor
    """float64: the best log posterior of the last unit since it was emitted."""
    hash: Tensor
    """int64."""
    parent: Tensor
    """int64: the hash of the prefix without its last unit."""
    last: Tensor
    """int64: the last unit; of the empty prefix the space."""
    emission: Tensor
    """int64: which emission of the chunk the last unit is, as in `ctc_prefix.Trace`."""

    def rows(self, start: int, stop: int) -> "Beam":
        """Return some of the streams."""
        return Beam(*(getattr(self, item.name)[start:stop] for item in fields(self)))

    def slots(self, start: int, stop: int | None = None) -> "Beam":
        """Return some of the slots of every stream."""
        return Beam(*(getattr(self, item.name)[:, start:stop] for item in fields(self)))


def empty_beam(size: int, space: int, device: torch.device) -> Beam:
    """Return the beam of one stream before its first frame, `[1, size]`: the empty prefix.

    Args:
        size: slots.
        space: the unit that is a space, or -1.
        device: where to.
    """
    never = torch.full((1, size), _NEVER, dtype=torch.float64, device=device)
    zeros = torch.zeros(1, size, dtype=torch.int64, device=device)
    beam = Beam(
        blank=never.clone(),
        unit=never.clone(),
        peak=never.clone(),
        hash=zeros + _DEAD_HASH,
        parent=zeros + _DEAD_PARENT,
        # As if a space had been said before: another adds nothing.
        last=zeros + max(space, BLANK),
        emission=torch.arange(size, device=device)[None],
    )
    beam.blank[0, 0] = 0.0
    beam.hash[0, 0] = ROOT_HASH
    beam.parent[0, 0] = _ROOT_PARENT
    return beam


class Fusion(Protocol):
    """What else than the acoustic model a prefix is ranked by."""

    def ranks(self, log_probs: Tensor) -> Tensor:
        """Return the scores to rank by: float64 `[B, K, V]`.

        Args:
            log_probs: float64 `[B, K, V]` of each prefix extended by each unit; under the blank
                those of the prefix itself.
        """
        ...

    def select(self, rows: Tensor, extended: Tensor, unit: Tensor, choice: Tensor) -> None:
        """Follow the prefixes that were kept.

        Args:
            rows: int64 `[B, K]`: the place of the prefix in the beam before, in `[0, B * K)`.
            extended: bool `[B, K]`: by a unit.
            unit: int64 `[B, K]`: which; the blank where not extended.
            choice: int64 `[B, K]`: the place in `ranks`, in `[0, K * V)`.
        """
        ...


@dataclass(slots=True)
class Step:
    """What a frame did to the beam, for `ctc_prefix.Trace`; every field is `[B, K]`."""

    renewed_parent: Tensor
    renewed_unit: Tensor
    renewed_peak: Tensor
    parent: Tensor
    unit: Tensor
    peak: Tensor


def advance_frames(
    beam: Beam,
    log_probs: Tensor,
    space: int,
    limits: Tensor | None,
    fusion: Fusion | None,
    first: int,
) -> tuple[Beam, list[Step]]:
    """Advance a beam by some frames.

    Args:
        beam: of B streams, K slots.
        log_probs: float64 `[T, B, V]`.
        space: the unit that is a space, or -1.
        limits: bool `[B, K]`, the slots that a stream may not use; None if it may use all.
        fusion: of the same streams, or None.
        first: how many frames of the chunk came before these.

    Returns:
        The beam, and what each frame did.
    """
    size, width = beam.last.shape[1], log_probs.shape[2]
    streams = len(beam.last)
    device = log_probs.device
    slots = torch.arange(size, device=device)
    starts = (torch.arange(streams, device=device) * size)[:, None]  # of the rows of a stream
    bases = slots * width
    # Under the blank stands the prefix itself, so the blank is no extension.
    extending = log_probs.clone()
    extending[:, :, BLANK] = _NEVER
    ids = torch.arange(first, first + len(log_probs), device=device)[:, None, None] * (2 * size)
    ids = ids + size + torch.arange(2 * size, device=device).view(1, 2, size)
    steps = []
    frames = zip(
        log_probs.unbind(),
        extending.unsqueeze(2).unbind(),
        log_probs[:, :, BLANK, None].unbind(),
        ids.unbind(),
        strict=True,
    )
    for frame, extension, blank_frame, (renewed_id, extended_id) in frames:
        blank, unit, last = beam.blank, beam.unit, beam.last
        total = torch.logaddexp(blank, unit)
        again = frame.gather(1, last)
        in_space = last == space
        stay_blank = total + blank_frame
        stay_unit = torch.where(in_space, total, unit) + again
        grown = total.unsqueeze(2) + extension
        # A unit twice in a row needs a blank between.
        repeated = blank.masked_fill(in_space, _NEVER) + again
        grown.scatter_(2, last.unsqueeze(2), repeated.unsqueeze(2))
        flat = grown.view(streams, -1)

        # Where a prefix of the beam is the extension of another, that belongs to it. The place
        # is 0, an impossible blank, where there is none.
        is_parent = beam.parent.unsqueeze(2) == beam.hash.unsqueeze(1)
        place = (is_parent * (bases + last.unsqueeze(2))).sum(2)
        arriving = flat.gather(1, place)
        flat.scatter_(1, place, _NEVER)
        # The emission that most of the probability came in by is the one that counts.
        renewed = arriving > torch.maximum(stay_blank, stay_unit)
        stay_unit = torch.logaddexp(stay_unit, arriving)
        grown[:, :, BLANK] = torch.logaddexp(stay_blank, stay_unit)
        parent_slot = place.div(width, rounding_mode="floor")
        renewed_parent = beam.emission.gather(1, parent_slot)
        renewed_peak = beam.peak.gather(1, parent_slot)
        emission = torch.where(renewed, renewed_id, beam.emission)
        peak = torch.where(renewed, again, torch.maximum(beam.peak, again))

        ranks = flat if fusion is None else fusion.ranks(grown).view(streams, -1)
        best, choice = ranks.topk(size)
        if limits is not None:
            best.masked_fill_(limits, _NEVER)
        dead = best == _NEVER
        rows = choice.div(width, rounding_mode="floor")
        added = choice - rows * width
        rows += starts
        extended = added > BLANK
        if fusion is not None:
            fusion.select(rows, extended, added, choice)
            best = flat.gather(1, choice).masked_fill_(dead, _NEVER)

        taken_hash, taken_emission = beam.hash.take(rows), emission.take(rows)
        steps.append(
            Step(
                renewed_parent, last, renewed_peak, taken_emission, added, beam.peak.take(rows)
            )
        )
        beam = Beam(
            blank=stay_blank.take(rows).masked_fill_(extended | dead, _NEVER),
            unit=torch.where(extended, best, stay_unit.take(rows)).masked_fill_(dead, _NEVER),
            peak=torch.where(extended, frame.gather(1, added), peak.take(rows)),
            hash=torch.where(extended, taken_hash * _MULTIPLIER + added, taken_hash).masked_fill_(
                dead, _DEAD_HASH
            ),
            parent=torch.where(extended, taken_hash, beam.parent.take(rows)).masked_fill_(
                dead, _DEAD_PARENT
            ),
            last=torch.where(extended, added, last.take(rows)),
            emission=torch.where(extended, extended_id, taken_emission),
        )
    return beam, steps


def joined(steps: Sequence[Step], streams: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the parents, units and parents' peaks of emissions, `[T, streams, 2 * K]` each."""
    found = []
    for renewed, grown in (
        ("renewed_parent", "parent"),
        ("renewed_unit", "unit"),
        ("renewed_peak", "peak"),
    ):
        both = [
            torch.stack([getattr(step, name) for step in steps]) for name in (renewed, grown)
        ]
        padding = (0, 0, 0, streams - both[0].shape[1])
        found.append(torch.nn.functional.pad(torch.cat(both, 2), padding))
    return found[0], found[1], found[2]
