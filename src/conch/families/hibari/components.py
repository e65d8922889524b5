"""The `acoustic` component, once for a sentence, and the `vocoder`, for any stretch of it."""

import numpy as np

from conch.component import Outputs, Row, RowByRow
from conch.families.hibari.declaration import FRAME_SAMPLES, MAX_TOKENS
from conch.families.hibari.signal import REACH, noise, starting_phases, waveform
from conch.families.hibari.weights import DURATIONS, HIBARI, LATENTS, PITCH, SPECTRUM
from conch.families.speech.graphs import ACOUSTIC, VOCODER, VoiceConfig
from conch.families.speech.rows import Stretch, sounds_of

FRAMES_OF_UNIT = 2
"""Frames of a unit of duration."""
CHANNELS = 132


class Acoustic(RowByRow):
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


class Vocoder(RowByRow):
    """Makes the waveform of frames, which equals that part of the whole."""

    def __init__(self, config: VoiceConfig) -> None:
        self._session = HIBARI.open(config, VOCODER)

    def answer(self, row: Row, /) -> Outputs:
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
