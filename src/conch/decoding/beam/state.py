"""One stream's search, and its next chunk."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conch.decoding.beam.prefix import Tip
from conch.decoding.beam.step import BeamState
from conch.decoding.options import NO_LIMIT, CtcSearchOptions
from conch.decoding.vocab import BLANK


@dataclass(frozen=True, slots=True)
class SearchState:
    """One stream's search; `CtcSearch.advance` makes a new one and leaves the old as it is."""

    options: CtcSearchOptions
    beam_state: BeamState
    """`[1, 1, beam_size]`, on the search's device; with a fusion if the options need one."""
    tips: tuple[Tip, ...]
    """The prefix of each slot."""
    frames: int = 0
    """Seen so far."""


@dataclass(frozen=True, slots=True)
class StreamChunk:
    """One stream's next frames, as they are searched."""

    state: SearchState
    log_probs: NDArray[np.float64]
    """float64 `[T', V]`; -inf where a unit is left out."""
    frames: Sequence[int]
    """Of the stream, of each of these."""
    seen: int
    """Frames before some were left out."""

    def passed(self) -> SearchState:
        """Return the state after the chunk, but for the beam."""
        return replace(self.state, frames=self.state.frames + self.seen)


def stream_chunk(state: SearchState, log_probs: NDArray[np.floating[Any]]) -> StreamChunk:
    """Return the frames of a stream that are searched.

    Units under `unit_min_log_prob` become impossible. Where that leaves the blank alone in
    several frames in a row, they count as one: each but the first only adds its log posterior to
    every prefix.

    Args:
        state: of the stream.
        log_probs: log posteriors `[T, V]`.
    """
    count = len(log_probs)
    found = log_probs.astype(np.float64)
    if not count:
        return StreamChunk(state, found, (), 0)
    options = state.options
    lowest = options.unit_min_log_prob if options.unit_min_log_prob > NO_LIMIT else -math.inf
    highest = math.log(options.skip_blank_above) if options.skip_blank_above < 1 else math.inf
    best = found.max(1, keepdims=True)
    found[found < np.minimum(best, lowest)] = -math.inf
    blank, others = found[:, BLANK], found[:, BLANK + 1 :]
    is_alone = (others.max(1) == -math.inf) | (blank > highest)
    others[is_alone] = -math.inf
    is_kept = ~is_alone
    is_kept[1:] |= ~is_alone[:-1]
    is_kept[0] = True
    (kept,) = is_kept.nonzero()
    together = np.add.reduceat(blank, kept)
    found = found[kept]
    found[:, BLANK] = together
    return StreamChunk(state, found, (kept + state.frames).tolist(), count)
