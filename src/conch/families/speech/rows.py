"""Rows of acoustic models and vocoders, checked."""

from dataclasses import dataclass

import numpy as np

from conch.component import Array, Row
from conch.component.arrays import FloatArray
from conch.wire.errors import InvalidRequestError

SLOWEST, FASTEST = 0.25, 4.0
MAX_FRAMES = 20_000
"""Most frames of a call of a vocoder."""


def sounds_of(row: Row, most: int) -> tuple[Array, FloatArray]:
    """Return what an acoustic model gets: tokens, int64 `[1, N]`, N at most `most`; speed `[1]`."""
    tokens, speed = row.inputs["tokens"].ravel(), row.inputs["speed"].ravel()
    if not 0 < len(tokens) <= most:
        raise InvalidRequestError(f"input 'tokens' takes 1 to {most} sounds; sent: {len(tokens)}")
    if not SLOWEST <= speed[0] <= FASTEST:
        raise InvalidRequestError(
            f"input 'speed' takes {SLOWEST:g} to {FASTEST:g}; sent: {speed[0]:g}"
        )
    return tokens[np.newaxis].astype(np.int64), speed.astype(np.float32)


@dataclass(frozen=True, slots=True)
class Stretch:
    latents: FloatArray
    """`[frames, channels]`"""
    before: int
    """Frames in front that are not spoken."""
    after: int
    """Frames behind that are not spoken."""
    first: int
    """Place of the first frame in the whole text."""

    @classmethod
    def of(cls, row: Row, channels: int) -> "Stretch":
        latents = row.inputs["latents"]
        before, after, first = (int(item) for item in row.inputs["context"].ravel())
        if len(latents) > MAX_FRAMES or latents.shape[1:] != (channels,):
            raise InvalidRequestError(
                f"input 'latents' takes at most {MAX_FRAMES} frames of {channels} values; "
                f"sent: {list(latents.shape)}"
            )
        if min(before, after, first) < 0 or before + after >= len(latents):
            raise InvalidRequestError(
                "input 'context' takes counts of frames that leave at least one of "
                f"{len(latents)}; sent: {before}, {after}, {first}"
            )
        return cls(latents, before, after, first)

    def spoken(self, samples: FloatArray, frame_samples: int) -> FloatArray:
        """Return the samples of the spoken frames, from those of all frames."""
        end = len(self.latents) - self.after
        return samples[self.before * frame_samples : end * frame_samples]
