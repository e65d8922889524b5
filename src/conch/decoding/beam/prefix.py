"""The prefixes of a beam: linked units, so that prefixes share what they have in common.

A prefix holds the one before it and is held by nothing but the beam and longer prefixes: what
no beam leads to any more is freed, and a stream's memory is its text and the beam's last frames.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from conch.decoding.beam.arrays import Array, namespace, on_host
from conch.decoding.vocab import BLANK

HASH_MULTIPLIER = 6364136223846793005
"""The hash of units is that of all but the last, times this, plus the last; 64 bits."""


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


class Tip(NamedTuple):
    """A prefix that may still grow."""

    prefix: Prefix
    log_prob: float
    """The best log posterior of its last unit since that was emitted."""


EMPTY = Tip(Prefix(None, BLANK, 0, 0.0), 0.0)
"""The empty prefix, of any stream."""


class Emissions(NamedTuple):
    """The units, frames and best log posteriors of a prefix."""

    units: tuple[int, ...]
    frames: tuple[int, ...]
    log_probs: tuple[float, ...]


def emissions_of(tip: Tip) -> Emissions:
    """Return what a prefix emitted, in order of time."""
    units, frames, log_probs = [], [], []
    prefix, log_prob = tip
    while prefix.parent is not None:
        units.append(prefix.unit)
        frames.append(prefix.frame)
        log_probs.append(log_prob)
        prefix, log_prob = prefix.parent, prefix.parent_log_prob
    return Emissions(tuple(units[::-1]), tuple(frames[::-1]), tuple(log_probs[::-1]))


class Step(NamedTuple):
    """What one frame did to the beam of `B` streams; every field is `[B, 1, K]`."""

    places: Array
    """int64: where the prefix in each slot after the frame was before it, in `[0, B * K)`."""
    units: Array
    """int64: what it grew by; the blank where it stayed."""
    last: Array
    """int64: the last unit of the prefix in each slot before the frame."""
    sources: Array
    """int64: the cell of another prefix that grew into that one; see `step`."""
    arriving: Array
    """float64: log probability from there; -inf if there was none."""
    stay_blank: Array
    """float64: log probability of the prefix staying by a blank."""
    stay_unit: Array
    """float64: log probability of the prefix staying by its last unit going on."""


class Trace(NamedTuple):
    """Where the prefixes of a beam come from, frame by frame; both int64 `[B, T, K]`."""

    slots: NDArray[np.int64]
    """The slot before the frame of the prefix itself, or, where it emitted its last unit in this
    frame, of the prefix without that unit."""
    emitted: NDArray[np.int64]
    """The unit, or the blank where it emitted none."""


def traced(steps: Sequence[Step]) -> Trace:
    """Return the trace of some frames.

    A prefix that is reached again counts as emitted in the frame that most of its probability
    came in by.
    """
    places, units, last, sources, arriving, stay_blank, stay_unit = (
        on_host(namespace(column[0]).concatenate(column, 1)) for column in zip(*steps, strict=True)
    )
    slots = places % places.shape[2]
    is_again = np.take_along_axis(arriving > np.maximum(stay_blank, stay_unit), slots, 2)
    is_again &= units == BLANK
    emitted = np.where(is_again, np.take_along_axis(last, slots, 2), units)
    sources %= places.shape[2]
    return Trace(np.where(is_again, np.take_along_axis(sources, slots, 2), slots), emitted)


def linked(
    trace: Trace,
    log_probs: NDArray[np.float64],
    frames: Sequence[int],
    before: Sequence[Tip],
    is_alive: Sequence[bool],
) -> list[Tip]:
    """Return the prefixes in the slots of one stream after a chunk.

    Args:
        trace: of the chunk, `[T, K]` of this stream.
        log_probs: float64 `[T, V]`.
        frames: of the stream, each of these T.
        before: the prefixes before the chunk, by slot.
        is_alive: which slots hold a prefix after it; others get the empty one.
    """
    count, size = trace.slots.shape
    # A node is a slot after a frame. Those before the chunk come first, by slot.
    known = dict(enumerate(before))
    emitted = trace.emitted.reshape(-1)
    origins = (trace.slots + size * np.arange(count)[:, None]).reshape(-1)
    tips = []
    for node, alive in enumerate(is_alive, start=count * size):
        path = []
        while alive and node not in known:
            path.append(node)
            node = origins.item(node - size)
        tip = known[node] if alive else EMPTY
        for node in reversed(path):
            frame, unit = node // size - 1, emitted.item(node - size)
            if unit == BLANK:
                log_prob = log_probs.item(frame, tip.prefix.unit)
                if log_prob > tip.log_prob:
                    tip = Tip(tip.prefix, log_prob)
            else:
                prefix = Prefix(tip.prefix, unit, frames[frame], tip.log_prob)
                tip = Tip(prefix, log_probs.item(frame, unit))
            known[node] = tip
        tips.append(tip)
    return tips
