"""The prefixes of a beam: linked units, so that prefixes share what they have in common.

A prefix holds the one before it and is held by nothing but the beam and longer prefixes: what
no beam leads to any more is freed, and a stream's memory is its text and the beam's last frames.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


class Prefix:
    """One unit and all before it."""

    __slots__ = ("frame", "parent", "parent_log_prob", "unit")

    def __init__(self, parent: "Prefix | None", unit: int, frame: int, parent_log_prob: float):
        """Extend a prefix; the empty one has no parent.

        Args:
            parent: the prefix without the unit.
            unit: an id of the vocabulary.
            frame: of the stream, where the unit was emitted.
            parent_log_prob: the best log posterior of the parent's last unit before that.
        """
        self.parent = parent
        self.unit = unit
        self.frame = frame
        self.parent_log_prob = parent_log_prob


class Emissions(NamedTuple):
    """The units, frames and best log posteriors of a prefix."""

    units: tuple[int, ...]
    frames: tuple[int, ...]
    log_probs: tuple[float, ...]


def emissions_of(prefix: Prefix, log_prob: float) -> Emissions:
    """Return what a prefix emitted, in order of time.

    Args:
        prefix: of a beam.
        log_prob: the best log posterior of its last unit so far.
    """
    units, frames, log_probs = [], [], []
    step = prefix
    while step.parent is not None:
        units.append(step.unit)
        frames.append(step.frame)
        log_probs.append(log_prob)
        log_prob = step.parent_log_prob
        step = step.parent
    return Emissions(tuple(units[::-1]), tuple(frames[::-1]), tuple(log_probs[::-1]))


class Steps(NamedTuple):
    """What frames did to the beam, for a `Trace`: a `[B, K]` of each frame."""

    emission: list[Tensor]
    """Before the frame, as `ctc_beam.Beam.emission`."""
    peak: list[Tensor]
    """Before the frame, as `ctc_beam.Beam.peak`."""
    last: list[Tensor]
    """Before the frame, as `ctc_beam.Beam.last`."""
    parent_slot: list[Tensor]
    """int64: the slot of the prefix without its last unit; any if it is not in the beam."""
    rows: list[Tensor]
    """int64: the place in the beam before, in `[0, B * K)`, of the prefixes after the frame."""
    added: list[Tensor]
    """int64: the units that they were extended by, or the blank."""


@dataclass(frozen=True, slots=True)
class Trace:
    """Every emission that one stream's beam made in a chunk, most of them dead by its end.

    Of `size` beam slots, emission `size + 2 * size * t + s` was made in frame `t`: for `s < size`
    by a prefix in slot `s` that was emitted anew, for others by a prefix now in slot `s - size`.
    The emissions before `size` are the prefixes of the beam at the chunk's start.
    """

    size: int
    parents: NDArray[np.int64]
    """`[T, 2 * size]`: the emission before."""
    units: NDArray[np.int64]
    """`[T, 2 * size]`."""
    parent_log_probs: NDArray[np.float64]
    """`[T, 2 * size]`."""


def linked(
    trace: Trace,
    emissions: Sequence[int],
    beam: Sequence[Prefix],
    frames: Sequence[int] | range,
) -> list[Prefix]:
    """Return the prefixes of some emissions of a chunk.

    Args:
        trace: of the chunk.
        emissions: one of each prefix of the beam after the chunk.
        beam: the prefixes before the chunk, by slot.
        frames: of the stream, of each frame of the trace.
    """
    known: dict[int, Prefix] = dict(enumerate(beam))
    parents, units = trace.parents.reshape(-1), trace.units.reshape(-1)
    parent_log_probs = trace.parent_log_probs.reshape(-1)
    width, size = 2 * trace.size, trace.size
    for emission in emissions:
        path = []
        step = emission
        while step not in known:
            path.append(step)
            step = parents.item(step - size)
        prefix = known[step]
        for step in reversed(path):
            place = step - size
            prefix = known[step] = Prefix(
                prefix, units.item(place), frames[place // width], parent_log_probs.item(place)
            )
    return [known[emission] for emission in emissions]


def traced(steps: Steps, streams: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the parents, units and parents' peaks of emissions, `[T, streams, 2 * K]` each.

    Args:
        steps: of some frames.
        streams: to fill up to, with zeros.
    """
    emission, peak, last, parent, rows, added = (torch.stack(column) for column in steps)
    found = []
    for before in (emission, peak):
        of_renewed = before.gather(2, parent)
        of_extended = before.flatten(1).gather(1, rows.flatten(1)).view_as(rows)
        found.append(torch.cat([of_renewed, of_extended], 2))
    found.insert(1, torch.cat([last, added], 2))
    padding = (0, 0, 0, streams - last.shape[1])
    parents, units, peaks = (torch.nn.functional.pad(item, padding) for item in found)
    return parents, units, peaks
