"""Blocks of 16 kHz mono, and the limits of the audio that they are made of."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import soxr

from conch.component import Array
from conch.component.waveform import SAMPLE_RATE, VAD_FRAME_SAMPLES
from conch.wire.errors import AudioError

BLOCK_SAMPLES = 1024 * VAD_FRAME_SAMPLES
"""Samples per block, 32.8 s: a whole utterance goes through the VAD in one call."""

MIN_SAMPLE_RATE = 4_000
MAX_SAMPLE_RATE = 192_000

MAX_PEAK = 10.0
"""Codecs overshoot full scale a little; integer samples sent as floats exceed it by far."""


class AudioBlocks(Iterator[Array]):
    """Blocks of 16 kHz mono, FP32 [BLOCK_SAMPLES] each, the last one shorter; read once."""

    def __init__(
        self,
        blocks: Iterable[Array],
        *,
        are_at_hand: bool = False,
        warnings: Sequence[str] = (),
    ) -> None:
        self._blocks = iter(blocks)
        self.are_at_hand = are_at_hand
        """Whether nothing is decoded or resampled for the next one: it takes half a millisecond."""
        self.num_samples = 0
        """Samples read so far."""
        self.warnings = warnings
        """What is wrong with the audio, one sentence each; complete when all blocks are read."""

    def __next__(self) -> Array:
        block = next(self._blocks)
        self.num_samples += len(block)
        return block


def check_rate(sample_rate: int, name: str) -> None:
    """Refuse a sample rate that no recording has.

    Raises:
        AudioError: it is one; the message begins with the name.
    """
    if not MIN_SAMPLE_RATE <= sample_rate <= MAX_SAMPLE_RATE:
        raise AudioError(
            f"{name} takes {MIN_SAMPLE_RATE} to {MAX_SAMPLE_RATE} Hz; sent: {sample_rate}"
        )


def check_duration(seconds: float, max_audio_s: float) -> None:
    """Refuse audio that is too long.

    Raises:
        AudioError: it is.
    """
    if seconds > max_audio_s:
        raise AudioError(
            f"the audio is {seconds:.1f} s long; this server takes at most {max_audio_s:g} s "
            "(parameter max_audio_s of the model)"
        )


def peak(samples: Array, name: str) -> float:
    """Return the greatest absolute value of samples, FP32 of any shape, not empty.

    Raises:
        AudioError: samples that are not finite or not in [-1, 1]; the message begins with the name.
    """
    found = max(float(samples.max()), -float(samples.min()))
    if not np.isfinite(found):
        raise AudioError(f"{name} has samples that are NaN or infinite")
    if found > MAX_PEAK:
        raise AudioError(
            f"{name} reaches {found:g}; samples are in [-1, 1]: divide 16-bit samples by 32768"
        )
    return found


def resampled(blocks: Iterator[Array], sample_rate: int) -> Iterator[Array]:
    """Yield mono of any sample rate at 16 kHz, in pieces of any length."""
    if sample_rate == SAMPLE_RATE:
        yield from blocks
        return
    resampler = soxr.ResampleStream(sample_rate, SAMPLE_RATE, 1, dtype="float32", quality="HQ")
    for block in blocks:
        yield resampler.resample_chunk(block)
    yield resampler.resample_chunk(np.zeros(0, np.float32), last=True)


def cut_to_blocks(pieces: Iterable[Array]) -> Iterator[Array]:
    """Cut pieces of any length into blocks of BLOCK_SAMPLES and a rest."""
    held: list[Array] = []
    size = 0
    for piece in pieces:
        held.append(piece)
        size += len(piece)
        while size >= BLOCK_SAMPLES:
            joined = np.concatenate(held) if len(held) > 1 else held[0]
            yield joined[:BLOCK_SAMPLES]
            size -= BLOCK_SAMPLES
            held = [joined[BLOCK_SAMPLES:]] if size else []
    if size:
        yield np.concatenate(held) if len(held) > 1 else held[0]
