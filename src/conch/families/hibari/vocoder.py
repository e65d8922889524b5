"""The `vocoder` component: any stretch of a sentence, equal to that part of the whole."""

from collections.abc import Sequence

import numpy as np

from conch.component import Outputs, Row
from conch.component.arrays import FloatArray
from conch.families.hibari.declaration import FRAME_SAMPLES, MAX_FRAMES
from conch.families.hibari.signal import REACH, noise, waveform
from conch.families.hibari.weights import LATENTS, SPECTRUM, VOCODER, HibariConfig, open_graph
from conch.wire.errors import InvalidRequestError

CHANNELS = 132


class Vocoder:
    """Makes the waveform of frames."""

    def __init__(self, config: HibariConfig) -> None:
        """Load the network.

        Raises:
            ConfigError: it cannot be loaded, or a parameter is out of range.
        """
        self._session = open_graph(config, VOCODER)

    def __call__(self, rows: Sequence[Row], /) -> list[Outputs]:
        """Return the `waveform` of rows with `latents` and `context`.

        Raises:
            InvalidRequestError: there are no frames or too many, or none of them is spoken.
        """
        return [{"waveform": self._sound(row)} for row in rows]

    def _sound(self, row: Row) -> FloatArray:
        latents = row.inputs["latents"]
        before, after, first = (int(item) for item in row.inputs["context"].ravel())
        frames = len(latents)
        if frames > MAX_FRAMES or latents.shape[1:] != (CHANNELS,):
            raise InvalidRequestError(
                f"input 'latents' takes at most {MAX_FRAMES} frames of {CHANNELS} values; "
                f"sent: {list(latents.shape)}"
            )
        if min(before, after, first) < 0 or before + after >= frames:
            raise InvalidRequestError(
                "input 'context' takes counts of frames that leave at least one of "
                f"{frames}; sent: {before}, {after}, {first}"
            )
        inputs = np.ascontiguousarray(latents[:, :-2].T)[np.newaxis]
        (spectrum,) = self._session.run([SPECTRUM], {LATENTS: inputs})
        start, end = max(before - 1, 0), min(frames - after + 2, frames)
        around = slice(max(start - REACH, 0), end + REACH)
        samples = waveform(
            spectrum[0, start:end],
            latents[around, -2],
            latents[around, -1],
            noise(first + start, end - start, int(row.parameters.get("seed", 0))),
            start - around.start,
        )
        samples = samples[(before - start) * FRAME_SAMPLES :]
        return samples[: (frames - before - after) * FRAME_SAMPLES]
