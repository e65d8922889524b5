"""The place of a chunk in its stream, as the three fields of Triton's sequence batcher."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StreamPlace:
    """The stream of a chunk, and whether the chunk is its first or last."""

    stream_id: str
    starts: bool
    ends: bool
