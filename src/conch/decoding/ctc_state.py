"""One stream's search, and its next chunk."""

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from conch.decoding.ctc_beam import Moment
from conch.decoding.ctc_hotwords import HotwordTables
from conch.decoding.ctc_options import NO_LIMIT, CtcSearchOptions
from conch.decoding.ctc_prefix import Prefix
from conch.decoding.ctc_vocab import BLANK


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


class StreamChunk:
    """One stream's next frames, as they are searched."""

    def __init__(self, state: SearchState, log_probs: Tensor) -> None:
        """Take log posteriors `[T, V]`.

        Units under `unit_min_log_prob` become impossible. Where that leaves the blank alone in
        several frames in a row, they count as one: each but the first only adds its log posterior
        to every prefix.
        """
        self.state = state
        found = log_probs.to(torch.float64)
        limit = state.options.unit_min_log_prob
        if limit > NO_LIMIT:
            best = found.amax(1, keepdim=True)
            found = found.masked_fill(found < best.clamp(max=limit), -math.inf)
        alone = found[:, BLANK + 1 :].amax(1) == -math.inf
        if state.options.skip_blank_above < 1:
            alone |= found[:, BLANK] > math.log(state.options.skip_blank_above)
        kept = ~alone
        kept[1:] |= ~alone[:-1]
        kept[:1] = True
        run = kept.cumsum(0) - 1
        sums = torch.zeros_like(found[:, BLANK]).index_add_(0, run, found[:, BLANK])
        places = kept.nonzero()[:, 0]
        found = found[places]
        found[alone[places]] = -math.inf
        found[:, BLANK] = sums[: len(places)]
        self.log_probs = found
        """float64 `[T', V]`."""
        self.frames = [state.frames + frame for frame in places.tolist()]
        """Of the stream, of each of these."""
        self._seen = len(log_probs)

    def passed(self) -> SearchState:
        """Return the state after the chunk, but for the beam."""
        return replace(self.state, frames=self.state.frames + self._seen)
