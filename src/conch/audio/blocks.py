"""Blocks of 16 kHz mono."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from conch.component import Array
from conch.component.waveform import SAMPLE_RATE, VAD_FRAME_SAMPLES

BLOCK_SAMPLES = 1024 * VAD_FRAME_SAMPLES
"""Samples per block, 32.8 s, so that most utterances need one call of the VAD."""


class AudioBlocks(Iterator[Array]):
    """Iterator over blocks of 16 kHz mono, FP32 [BLOCK_SAMPLES]; the last may be shorter."""

    def __init__(
        self,
        blocks: Iterable[Array],
        *,
        are_at_hand: bool = False,
        warnings: Sequence[str] = (),
    ) -> None:
        self._blocks = iter(blocks)
        self.are_at_hand = are_at_hand
        """Whether the next block needs no decoding or resampling, and takes half a millisecond."""
        self.num_samples = 0
        self.warnings = warnings
        """Problems of the audio, one sentence each; complete when all blocks are read."""

    def __next__(self) -> Array:
        block = next(self._blocks)
        self.num_samples += len(block)
        return block


def resampled(blocks: Iterator[Array], sample_rate: int) -> Iterator[Array]:
    """Yield mono samples resampled to 16 kHz, in pieces of any length."""
    if sample_rate == SAMPLE_RATE:
        yield from blocks
        return
    import soxr  # a client has none

    resampler = soxr.ResampleStream(sample_rate, SAMPLE_RATE, 1, dtype="float32", quality="HQ")
    for block in blocks:
        yield resampler.resample_chunk(block)
    yield resampler.resample_chunk(np.zeros(0, np.float32), last=True)


def cut_to_blocks(pieces: Iterable[Array], length: int = BLOCK_SAMPLES) -> Iterator[Array]:
    """Yield blocks of one length from pieces of any length; the last block may be shorter."""
    held: list[Array] = []
    size = 0
    for piece in pieces:
        held.append(piece)
        size += len(piece)
        while size >= length:
            joined = np.concatenate(held) if len(held) > 1 else held[0]
            yield joined[:length]
            size -= length
            held = [joined[length:]] if size else []
    if size:
        yield np.concatenate(held) if len(held) > 1 else held[0]
