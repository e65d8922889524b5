"""CTC prefix beam search, one frame at a time for many streams side by side.

The algorithm is that of Graves (2014) and of Hannun et al., "First-pass large vocabulary
continuous speech recognition using bi-directional recurrent DNNs" (2014): a prefix carries the
log probability of its paths that end in a blank and of those that end in its last unit, so that
paths of one text add up. Prefixes are told apart by 64-bit hashes of their units.

Texts are told apart as words: a space at the beginning or after a space adds nothing, so paths
with such spaces belong to the prefix without them.
"""

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


class Steps:
    """What some frames did to a beam, for `ctc_prefix.Trace`."""

    def __init__(self, width: int) -> None:
        """Start without frames; `width` is that of the vocabulary."""
        self._width = width
        self._frames: list[tuple[Tensor, ...]] = []

    def add(self, *before_and_choice: Tensor) -> None:
        """Add a frame: emissions, peaks and last units before it, then what it did.

        Args:
            before_and_choice: `[B, K]` each. Before the frame, the emission, its peak, the last
                unit and the place of the prefix in its parent's extensions; then the rows that
                the kept prefixes come from and the units they were extended by.
        """
        self._frames.append(before_and_choice)

    def traced(self, streams: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return the parents, units and parents' peaks of emissions, `[T, streams, 2 * K]` each.

        Args:
            streams: to fill up to, with zeros.
        """
        columns = [torch.stack(column) for column in zip(*self._frames, strict=True)]
        emission, peak, last, place, rows, added = columns
        parent = place.div(self._width, rounding_mode="floor")
        found = []
        for before in (emission, peak):
            of_extended = before.flatten(1).gather(1, rows.flatten(1)).view_as(rows)
            found.append(torch.cat([before.gather(2, parent), of_extended], 2))
        found.insert(1, torch.cat([last, added], 2))
        padding = (0, 0, 0, streams - last.shape[1])
        parents, units, peaks = (torch.nn.functional.pad(item, padding) for item in found)
        return parents, units, peaks


def advance_frames(
    beam: Beam,
    log_probs: Tensor,
    space: int,
    limits: Tensor | None,
    fusion: Fusion | None,
    first: int,
) -> tuple[Beam, Steps]:
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
    streams, size = beam.last.shape
    width, device = log_probs.shape[2], log_probs.device
    slots = torch.arange(size, device=device)
    starts = (torch.arange(streams, device=device) * size)[:, None]
    bases = (slots * width)[None, None]
    # Under the blank stands the prefix itself, so the blank is no extension.
    extending = log_probs.clone()
    extending[:, :, BLANK] = _NEVER
    ids = torch.arange(first, first + len(log_probs), device=device)[:, None, None] * (2 * size)
    ids = ids + size + torch.arange(2 * size, device=device).view(2, 1, 1, size)
    never = torch.full((), _NEVER, dtype=torch.float64, device=device)
    grown = torch.empty(streams, size, width, dtype=torch.float64, device=device)
    flat, staying = grown.view(streams, -1), grown[:, :, BLANK]
    # Once a stream has a prefix in every slot it never lacks one, if nothing is impossible.
    may_lack = limits is not None or not bool(log_probs.isfinite().all())
    lacking = True
    steps = Steps(width)

    blank, unit, peak, last = beam.blank, beam.unit, beam.peak, beam.last
    hashes, parents, emission = beam.hash, beam.parent, beam.emission
    total = torch.logaddexp(blank, unit)
    frames = zip(
        log_probs.unbind(),
        extending.unsqueeze(2).unbind(),
        log_probs[:, :, BLANK, None].unbind(),
        ids[0].unbind(),
        ids[1].unbind(),
        strict=True,
    )
    for frame, extension, blank_frame, renewed_id, extended_id in frames:
        again = frame.gather(1, last)
        in_space = last == space
        stay_blank = total + blank_frame
        stay_unit = torch.where(in_space, total, unit).add_(again)
        torch.add(total.unsqueeze(2), extension, out=grown)
        # A unit twice in a row needs a blank between.
        repeated = torch.where(in_space, never, blank).add_(again)
        grown.scatter_(2, last.unsqueeze(2), repeated.unsqueeze(2))

        # What reaches a prefix of the beam as the extension of another belongs to it. The place
        # is 0, an impossible blank, where the other is not in the beam.
        is_parent = parents.unsqueeze(2) == hashes.unsqueeze(1)
        place = ((bases + last.unsqueeze(2)).mul_(is_parent)).sum(2)
        arriving = flat.gather(1, place)
        flat.scatter_(1, place, _NEVER)
        # The emission that most of the probability came in by is the one that counts.
        renewed = arriving > torch.maximum(stay_blank, stay_unit)
        stay_unit = torch.logaddexp(stay_unit, arriving)
        torch.logaddexp(stay_blank, stay_unit, out=staying)

        best, choice = (flat if fusion is None else fusion.ranks(grown)).topk(size)
        if limits is not None:
            best.masked_fill_(limits, _NEVER)
        slot = choice.div(width, rounding_mode="floor")
        added = choice - slot * width
        rows = slot + starts
        extended = added > BLANK

        steps.add(emission, peak, last, place, rows, added)
        taken = hashes.take(rows)
        hashes = torch.where(extended, taken * _MULTIPLIER + added, taken)
        parents = torch.where(extended, taken, parents.take(rows))
        emission = torch.where(renewed, renewed_id, emission).take(rows)
        emission = torch.where(extended, extended_id, emission)
        peak = torch.where(renewed, again, torch.maximum(peak, again)).take(rows)
        peak = torch.where(extended, frame.gather(1, added), peak)
        last = torch.where(extended, added, last.take(rows))
        if fusion is None:
            total = best
        else:
            fusion.select(rows, extended, added, choice)
            total = flat.gather(1, choice)
        blank = torch.where(extended, never, stay_blank.take(rows))
        unit = torch.where(extended, total, stay_unit.take(rows))
        if lacking:
            dead = best == _NEVER
            lacking = may_lack or bool(dead.any())
            for scores in (blank, unit, total):
                scores.masked_fill_(dead, _NEVER)
            hashes.masked_fill_(dead, _DEAD_HASH)
            parents.masked_fill_(dead, _DEAD_PARENT)
    return Beam(blank, unit, peak, hashes, parents, last, emission), steps
