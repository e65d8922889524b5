"""Where a chunk stands in its stream; Triton's sequence batcher has the same three fields."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StreamPlace:
    """Which stream a chunk belongs to, and where it stands in it."""

    stream_id: str
    starts: bool
    ends: bool
