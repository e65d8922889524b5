"""The `acoustic` component: once for a sentence."""

import numpy as np

from conch.component import Outputs, Row, RowByRow
from conch.families.hibari.declaration import MAX_TOKENS
from conch.families.hibari.signal import starting_phases
from conch.families.hibari.weights import DURATIONS, HIBARI, LATENTS, PITCH
from conch.families.speech.graphs import ACOUSTIC, VoiceConfig
from conch.families.speech.rows import sounds_of

FRAMES_OF_UNIT = 2
"""Frames of a unit of duration."""


class Acoustic(RowByRow):
    """Says when each sound is spoken, and how the voice does it."""

    def __init__(self, config: VoiceConfig) -> None:
        self._session = HIBARI.open(config, ACOUSTIC)

    def answer(self, row: Row, /) -> Outputs:
        """Return `latents` and `durations` of a row with `tokens` and `speed`.

        Latents [frames, 132] are what the network's second half takes, the pitch in Hz, and the
        phase at which the frame begins, in turns.
        """
        tokens, speed = sounds_of(row, MAX_TOKENS)
        latents, pitch, units = self._session.run(
            [LATENTS, PITCH, DURATIONS], {"ids": tokens, "speed": speed}
        )
        columns = (latents[0], pitch, starting_phases(pitch[0])[np.newaxis])
        return {
            "latents": np.ascontiguousarray(np.concatenate(columns).T),
            "durations": np.rint(units * FRAMES_OF_UNIT).astype(np.int32),
        }
