"""One stream's search, and its next chunk."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from torch import Tensor

from conch.decoding.ctc_beam import Moment
from conch.decoding.ctc_hotwords import HotwordTables
from conch.decoding.ctc_options import CtcSearchOptions
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
    after_blank: bool = False
    """The last frame was a blank above `skip_blank_above`."""


class StreamChunk:
    """One stream's next frames, those that need no search left out."""

    def __init__(self, state: SearchState, log_probs: Tensor) -> None:
        """Take log posteriors `[T, V]`."""
        self.state = state
        self.log_probs = log_probs
        """`[T', V]` of the frames to search."""
        self.frames: Sequence[int] = range(state.frames, state.frames + len(log_probs))
        """Of the stream, of each of these."""
        self._seen = len(log_probs)
        self._after_blank = state.after_blank
        limit = state.options.skip_blank_above
        if limit < 1 and len(log_probs):
            blank = log_probs[:, BLANK] > math.log(limit)
            before = blank.roll(1)
            before[0] = state.after_blank
            # The first of a run stays: it parts equal units.
            kept = (~(blank & before)).nonzero()[:, 0]
            self.log_probs = log_probs[kept]
            self.frames = [state.frames + frame for frame in kept.tolist()]
            self._after_blank = bool(blank[-1])

    def passed(self) -> SearchState:
        """Return the state after the chunk, but for the beam."""
        return replace(
            self.state, frames=self.state.frames + self._seen, after_blank=self._after_blank
        )
