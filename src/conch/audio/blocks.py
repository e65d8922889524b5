"""Cut audio into pieces of 16 kHz mono: recordings into blocks, live chunks into steps."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from conch.audio.limits import check_rate, peak
from conch.component import SAMPLE_RATE, VAD_FRAME_SAMPLES, Array

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


class LiveAudio:
    """Cuts the chunks of a live stream into steps of 16 kHz mono of equal length."""

    def __init__(self, sample_rate: int, step_samples: int) -> None:
        """Take Hz of chunks, and samples of steps at 16 kHz; raise an AudioError for a bad rate."""
        check_rate(sample_rate, "SAMPLE_RATE")
        self.sample_rate = sample_rate
        self._step = step_samples
        self._held = np.zeros(0, np.float32)
        self._resampler = None
        if sample_rate != SAMPLE_RATE:
            import soxr  # a client has none

            self._resampler = soxr.ResampleStream(sample_rate, SAMPLE_RATE, 1, dtype="float32")

    def steps(self, chunk: Array, *, ends: bool) -> list[tuple[Array, bool]]:
        """Add a chunk, FP32 [samples] in [-1, 1]; return complete steps, each with "is last".

        The last step of a stream may be shorter. It is empty if no samples are left for it. Raise
        an AudioError, and leave the chunk out, if a sample is not finite or far outside [-1, 1].
        """
        if len(chunk):
            peak(chunk, "WAV")
        if self._resampler is not None:
            chunk = self._resampler.resample_chunk(chunk, last=ends)
        held = np.concatenate([self._held, chunk])
        whole = len(held) // self._step
        cuts = [self._step * number for number in range(1, whole + 1)]
        *steps, rest = np.split(held, cuts)
        self._held = rest.copy()
        if ends and (len(rest) or not steps):
            steps.append(rest)
        return [(step, ends and number == len(steps)) for number, step in enumerate(steps, 1)]

    def incomplete(self, multiple: int) -> Array:
        """Return the samples of the incomplete step, cut to a multiple of a number."""
        return self._held[: len(self._held) // multiple * multiple]

    def drop(self, samples: int) -> None:
        """Remove this many samples of the incomplete step; the others become silence."""
        self._held = np.zeros(len(self._held) - samples, np.float32)
