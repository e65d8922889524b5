"""The `kokoro_acoustic` component, once for a sentence, and `kokoro_vocoder`, for any stretch."""

import numpy as np

from conch.component import Outputs, Row, RowByRow
from conch.component.arrays import FloatArray
from conch.families.kokoro.declaration import FRAME_SAMPLES, MAX_TOKENS
from conch.families.kokoro.latents import CHANNELS, LATENTS, packed, unpacked
from conch.families.kokoro.weights import (
    AUDIO,
    DURATIONS,
    KOKORO,
    SOUND,
    SOUND_ROW,
    STATISTIC,
    STYLE_ROWS,
    KokoroConfig,
    mixed,
    opened_styles,
    statistics,
)
from conch.families.speech.graphs import ACOUSTIC, VOCODER
from conch.families.speech.rows import Stretch, sounds_of


class Acoustic(RowByRow):
    def __init__(self, config: KokoroConfig) -> None:
        self._session = KOKORO.open(config, ACOUSTIC)
        self._styles = opened_styles(config.model)

    def answer(self, row: Row, /) -> Outputs:
        tokens, speed = sounds_of(row, MAX_TOKENS)
        style = self.style(row.parameters["voice"], tokens.shape[1])
        *values, durations = self._session.run(
            [*LATENTS, DURATIONS], {"tokens": tokens, "style": style, "speed": speed}
        )
        return {"latents": packed(values), "durations": durations.ravel().astype(np.int32)}

    def style(self, voice: str, tokens: int) -> FloatArray:
        """Return the style `[1, 256]` of a voice or a mix, for a sentence of so many tokens."""
        place = min(max(tokens - 2, 0), STYLE_ROWS - 1)  # a token at each end is silence
        style = mixed(self._styles[:, place], voice)
        style[SOUND] = mixed(self._styles[:, SOUND_ROW, SOUND], voice)
        return style[np.newaxis]


class Vocoder(RowByRow):
    def __init__(self, config: KokoroConfig) -> None:
        self._session = KOKORO.open(config, VOCODER)

    def answer(self, row: Row, /) -> Outputs:
        part = Stretch.of(row, CHANNELS)
        of_voice = mixed(statistics(), row.parameters["voice"])[np.newaxis, :, np.newaxis]
        (samples,) = self._session.run([AUDIO], {**unpacked(part.latents), STATISTIC: of_voice})
        return {"waveform": part.spoken(samples.ravel(), FRAME_SAMPLES)}
