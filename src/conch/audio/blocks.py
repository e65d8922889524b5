"""Blocks of 16 kHz mono, and the limits of sample rate, duration and level."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import soxr

from conch.component import Array
from conch.component.waveform import SAMPLE_RATE, VAD_FRAME_SAMPLES
from conch.wire.errors import AudioError

BLOCK_SAMPLES = 1024 * VAD_FRAME_SAMPLES
"""Samples per block, 32.8 s, so that most utterances need one call of the VAD."""

MIN_SAMPLE_RATE = 4_000
MAX_SAMPLE_RATE = 192_000

MAX_PEAK = 10.0
"""Largest sample value. Codecs exceed full scale a little; integers sent as floats by far."""


class AudioBlocks(Iterator[Array]):
    """Iterator over blocks of 16 kHz mono, FP32 [BLOCK_SAMPLES], of which the last is shorter."""

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
        """Number of samples read so far."""
        self.warnings = warnings
        """Problems of the audio, one sentence each; complete when all blocks are read."""

    def __next__(self) -> Array:
        block = next(self._blocks)
        self.num_samples += len(block)
        return block


def check_rate(sample_rate: int, name: str) -> None:
    """Check a sample rate.

    Args:
        sample_rate: Hz.
        name: Beginning of the error's message.

    Raises:
        AudioError: the rate is below MIN_SAMPLE_RATE or above MAX_SAMPLE_RATE.
    """
    if not MIN_SAMPLE_RATE <= sample_rate <= MAX_SAMPLE_RATE:
        raise AudioError(
            f"{name} takes {MIN_SAMPLE_RATE} to {MAX_SAMPLE_RATE} Hz; sent: {sample_rate}"
        )


def check_duration(seconds: float, max_audio_s: float) -> None:
    """Check the length of audio.

    Args:
        seconds: Length of the audio.
        max_audio_s: Longest length.

    Raises:
        AudioError: the audio is too long.
    """
    if seconds > max_audio_s:
        raise AudioError(
            f"the audio is {seconds:.1f} s long; this server takes at most {max_audio_s:g} s "
            "(parameter max_audio_s of the model)"
        )


def peak(samples: Array, name: str) -> float:
    """Return the largest absolute value of samples, FP32 of any shape, not empty.

    Args:
        samples: The samples.
        name: Beginning of the error's message.

    Raises:
        AudioError: a sample is not finite, or far outside [-1, 1].
    """
    found = max(float(samples.max()), -float(samples.min()))
    if not np.isfinite(found):
        raise AudioError(f"{name} has samples that are NaN or infinite")
    if found > MAX_PEAK:
        raise AudioError(
            f"{name} reaches {found:g}; samples are in [-1, 1]: divide 16-bit samples by 32768, or "
            "send them as PCM16"
        )
    return found


def resampled(blocks: Iterator[Array], sample_rate: int) -> Iterator[Array]:
    """Yield mono samples resampled to 16 kHz, in pieces of any length."""
    if sample_rate == SAMPLE_RATE:
        yield from blocks
        return
    resampler = soxr.ResampleStream(sample_rate, SAMPLE_RATE, 1, dtype="float32", quality="HQ")
    for block in blocks:
        yield resampler.resample_chunk(block)
    yield resampler.resample_chunk(np.zeros(0, np.float32), last=True)


def cut_to_blocks(pieces: Iterable[Array]) -> Iterator[Array]:
    """Yield blocks of BLOCK_SAMPLES from pieces of any length; the last block may be shorter."""
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
