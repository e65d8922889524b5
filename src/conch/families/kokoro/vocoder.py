"""The `kokoro_vocoder` component: any stretch of a sentence."""

import numpy as np

from conch.component import Outputs, Row, RowByRow
from conch.families.kokoro.declaration import FRAME_SAMPLES
from conch.families.kokoro.latents import CHANNELS, unpacked
from conch.families.kokoro.weights import AUDIO, KOKORO, STATISTIC, KokoroConfig, mixed, statistics
from conch.families.speech.graphs import VOCODER
from conch.families.speech.rows import Stretch


class Vocoder(RowByRow):
    """Makes the waveform of frames."""

    def __init__(self, config: KokoroConfig) -> None:
        self._session = KOKORO.open(config, VOCODER)

    def answer(self, row: Row, /) -> Outputs:
        """Return the `waveform` of a row with `latents` and `context`; nothing in it is drawn."""
        part = Stretch.of(row, CHANNELS)
        of_voice = mixed(statistics(), row.parameters["voice"])[np.newaxis, :, np.newaxis]
        (samples,) = self._session.run([AUDIO], {**unpacked(part.latents), STATISTIC: of_voice})
        return {"waveform": part.spoken(samples.ravel(), FRAME_SAMPLES)}
