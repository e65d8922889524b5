"""The `piper_vocoder` component: any stretch of a sentence, equal to that part of the whole."""

import numpy as np

from conch.component import Outputs, Row, RowByRow
from conch.families.piper.voices import Voices
from conch.families.speech.graphs import VOCODER, VoiceConfig
from conch.families.speech.rows import Stretch


class Vocoder(RowByRow):
    """Makes the waveform of frames."""

    def __init__(self, config: VoiceConfig) -> None:
        self._voices = Voices(config, VOCODER)

    def answer(self, row: Row, /) -> Outputs:
        """Return the `waveform` of a row with `latents` and `context`; nothing in it is drawn."""
        _, session, speaker = self._voices.of(row)
        taken = session.get_inputs()[0]
        part = Stretch.of(row, taken.shape[1])
        latents = np.ascontiguousarray(part.latents.T)[np.newaxis]
        (samples,) = session.run(None, {taken.name: latents, **speaker})
        return {"waveform": part.spoken(samples.ravel(), samples.size // len(part.latents))}
