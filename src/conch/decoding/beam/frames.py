"""Frames laid out for the beam: a row of cells for each unit that a frame makes possible.

Few units of a vocabulary are possible in a frame, most often one or two. Prefixes grow by these
alone.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from conch.decoding.beam.arrays import Array, placed
from conch.decoding.vocab import BLANK, CtcVocab

GROWTH_ROW = 2
"""The first row of those that prefixes grow by; in the rows before, prefixes stay as they are."""
_NEVER = -math.inf


class Chunk(NamedTuple):
    """Frames of some streams, and what holds for all of them."""

    log_probs: NDArray[np.float64]
    """float64 `[T, B, V]`; -inf where a unit is impossible."""
    ends: list[int]
    """After how many of these frames a stream ends; T is among them."""
    vocab: CtcVocab
    limits: Array | None
    """bool `[B, 1, K]`: the slots that a stream may not use; None if it may use all."""
    device: str | None
    """As in `arrays.placed`."""


class Frame(NamedTuple):
    """One frame of each stream."""

    log_probs: Array
    """float64 `[B, 1, V]`."""
    blank: Array
    """float64 `[B, 1, 1]`: log probability of the blank."""
    units: Array
    """int64 `[B, rows, 1]`: the unit that prefixes in a row grow by; the blank where they stay."""
    growth: Array
    """float64 `[B, rows, 1]`: log probability of that unit; -inf where they stay."""
    row_starts: Array
    """int64 `[B, 1, V]`: the first cell of a unit's row; 0 for a unit without one."""
    space: int | None
    """The unit that is a space, if that is possible in some stream."""
    closing: Array | None
    """bool `[B, rows, 1]`: whether the unit closes the word before it; None if none does."""
    first_places: Array
    """int64 `[B, 1, 1]`: the place of each stream's first slot."""
    first_units: Array
    """int64 `[B, 1, 1]`: where each stream's units begin in `[B, 1, V]`, read as one row."""


def laid_out(chunk: Chunk, size: int) -> list[Frame]:
    """Return the frames of a chunk for a beam of `size` slots, each with as many rows as it needs.

    Frames are laid out on the host, whatever the device.
    """
    count, streams, width = chunk.log_probs.shape
    space = chunk.vocab.space
    possible = chunk.log_probs > _NEVER
    has_space = possible[:, :, space].any(1).tolist() if space >= 0 else [False] * count
    possible[:, :, BLANK] = False
    heights = GROWTH_ROW + possible.sum(2).max(1)
    # A unit that is not possible has row 0.
    rows = (possible.cumsum(2) + (GROWTH_ROW - 1)) * possible
    every_unit = np.broadcast_to(np.arange(width), rows.shape)
    units = _by_row(every_unit, rows, heights.max(), BLANK)
    closing = np.array(chunk.vocab.opening)[units]
    closes = closing.any((1, 2, 3)).tolist()
    before = np.arange(streams)[:, None, None]
    row_starts = (heights[:, None, None, None] * before + rows[:, :, None]) * size
    row_starts[~possible[:, :, None]] = 0
    growth = _by_row(chunk.log_probs, rows, heights.max(), _NEVER)
    items = chunk.log_probs[:, :, None], units, growth, row_starts, closing
    log_probs, units, growth, row_starts, closing, first_places, first_units = (
        placed(item, chunk.device) for item in (*items, before * size, before * width)
    )
    return [
        Frame(
            log_probs[index],
            log_probs[index, :, :, BLANK : BLANK + 1],
            units[index, :, :height],
            growth[index, :, :height],
            row_starts[index],
            space if has_space[index] else None,
            closing[index, :, :height] if closes[index] else None,
            first_places,
            first_units,
        )
        for index, height in enumerate(heights.tolist())
    ]


def _by_row(
    values: NDArray[Any], rows: NDArray[np.int64], height: int, nothing: float
) -> NDArray[Any]:
    """Return values of units by the units' rows, `[T, B, height, 1]`.

    Args:
        values: `[T, B, V]`.
        rows: int64 `[T, B, V]`: of each unit; 0 for one that is left out.
        height: rows of the tallest frame.
        nothing: where no unit is.
    """
    found = np.full((*rows.shape[:2], height), nothing, values.dtype)
    np.put_along_axis(found, rows, values, 2)
    found[:, :, 0] = nothing
    return found[..., None]
