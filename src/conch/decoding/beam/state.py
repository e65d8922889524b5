"""One stream's search, and its next chunk."""

import itertools
import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from conch.decoding.beam.hotwords import HotwordTables
from conch.decoding.beam.prefix import Prefix
from conch.decoding.beam.step import Moment
from conch.decoding.options import NO_LIMIT, CtcSearchOptions
from conch.decoding.vocab import BLANK


@dataclass(frozen=True, slots=True)
class SearchState:
    """One stream's search; `CtcSearch.advance` makes a new one and leaves the old as it is."""

    options: CtcSearchOptions
    moment: Moment
    """`[1, beam_size]`, on the search's device; with a fusion if the options need one."""
    prefixes: tuple[Prefix, ...]
    """Of each slot."""
    hotwords: HotwordTables | None
    """Shared by streams with the same hotwords."""
    frames: int = 0
    """Seen so far."""


@dataclass(frozen=True, slots=True)
class StreamChunk:
    """One stream's next frames, as they are searched."""

    state: SearchState
    log_probs: Tensor
    """float64 `[T', V]`."""
    frames: Sequence[int]
    """Of the stream, of each of these."""
    seen: int
    """Frames before some were left out."""

    def passed(self) -> SearchState:
        """Return the state after the chunk, but for the beam."""
        return replace(self.state, frames=self.state.frames + self.seen)


def stream_chunks(states: Sequence[SearchState], log_probs: Sequence[Tensor]) -> list[StreamChunk]:
    """Return the frames to search of each stream.

    Units under `unit_min_log_prob` become impossible. Where that leaves the blank alone in
    several frames in a row, they count as one: each but the first only adds its log posterior to
    every prefix.

    Args:
        states: of the streams.
        log_probs: log posteriors `[T, V]` of each.
    """
    lens = [len(item) for item in log_probs]
    if not sum(lens):
        pairs = zip(states, log_probs, strict=True)
        return [StreamChunk(state, item.double(), (), 0) for state, item in pairs]
    found = torch.cat(list(log_probs)).to(torch.float64)
    device = found.device
    counts = torch.tensor(lens, device=device)
    limits = [
        (
            item.options.unit_min_log_prob
            if item.options.unit_min_log_prob > NO_LIMIT
            else -math.inf,
            math.log(item.options.skip_blank_above)
            if item.options.skip_blank_above < 1
            else math.inf,
        )
        for item in states
    ]
    bounds = torch.tensor(limits, dtype=torch.float64, device=device)
    lowest, highest = bounds.repeat_interleave(counts, 0).unbind(1)
    best = found.amax(1)
    found.masked_fill_(found < torch.minimum(best, lowest)[:, None], -math.inf)
    blank = found[:, BLANK].clone()
    alone = (found[:, BLANK + 1 :].amax(1) == -math.inf) | (blank > highest)
    found[:, BLANK + 1 :].masked_fill_(alone[:, None], -math.inf)
    kept = ~alone
    kept[1:] |= ~alone[:-1]
    starts = (counts.cumsum(0) - counts)[counts > 0]
    kept[starts] = True
    run = kept.cumsum(0) - 1
    places = kept.nonzero()[:, 0]
    found = found[places]
    found[:, BLANK] = torch.zeros_like(found[:, BLANK]).index_add_(0, run, blank)
    ends = [0, *itertools.accumulate(lens)]
    all_places = places.tolist()
    chunks = []
    for state, start, end in zip(states, ends, ends[1:], strict=False):
        first, last = bisect_left(all_places, start), bisect_left(all_places, end)
        shift = state.frames - start
        frames = [place + shift for place in all_places[first:last]]
        chunks.append(StreamChunk(state, found[first:last], frames, end - start))
    return chunks
