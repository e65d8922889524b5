"""The `vocoder` component: any stretch of a sentence, equal to that part of the whole."""

import numpy as np

from conch.component import Outputs, Row, RowByRow
from conch.families.hibari.declaration import FRAME_SAMPLES
from conch.families.hibari.signal import REACH, noise, waveform
from conch.families.hibari.weights import HIBARI, LATENTS, SPECTRUM
from conch.families.speech.graphs import VOCODER, VoiceConfig
from conch.families.speech.rows import Stretch

CHANNELS = 132


class Vocoder(RowByRow):
    """Makes the waveform of frames."""

    def __init__(self, config: VoiceConfig) -> None:
        self._session = HIBARI.open(config, VOCODER)

    def answer(self, row: Row, /) -> Outputs:
        """Return the `waveform` of a row with `latents` and `context`."""
        part = Stretch.of(row, CHANNELS)
        latents, frames = part.latents, len(part.latents)
        inputs = np.ascontiguousarray(latents[:, :-2].T)[np.newaxis]
        (spectrum,) = self._session.run([SPECTRUM], {LATENTS: inputs})
        start, end = max(part.before - 1, 0), min(frames - part.after + 2, frames)
        around = slice(max(start - REACH, 0), end + REACH)
        samples = waveform(
            spectrum[0, start:end],
            latents[around, -2],
            latents[around, -1],
            noise(part.first + start, end - start, int(row.parameters.get("seed", 0))),
            start - around.start,
        )
        samples = samples[(part.before - start) * FRAME_SAMPLES :]
        return {"waveform": samples[: (frames - part.before - part.after) * FRAME_SAMPLES]}
