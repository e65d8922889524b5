"""The `piper_acoustic` component, once for a sentence, and `piper_vocoder`, for any stretch."""

from collections.abc import Mapping, Sequence

import numpy as np

from conch.component import Array, Outputs, Row, RowByRow
from conch.families.hibari.front_end import symbols
from conch.families.piper.declaration import BEGIN, BETWEEN, END, MAX_TOKENS, SOUNDS
from conch.families.piper.voices import NOISE, Voices, noise
from conch.families.speech.graphs import ACOUSTIC, VOCODER, VoiceConfig
from conch.families.speech.rows import Stretch, sounds_of

SILENCE = "\0"
"""Sound of a token that has none."""


class Acoustic(RowByRow):
    def __init__(self, config: VoiceConfig) -> None:
        self._voices, self._symbols = Voices(config, ACOUSTIC), symbols()

    def answer(self, row: Row, /) -> Outputs:
        tokens, speed = sounds_of(row, MAX_TOKENS)
        voice, session, speaker = self._voices.of(row)
        sounds = "".join(self._symbols.get(token, SILENCE) for token in tokens[0].tolist())
        units, owners = units_of(sounds, voice.units)
        drawn, length, drawn_lengths = voice.scales
        feeds = {
            "input": units[np.newaxis],
            "input_lengths": np.array([len(units)], np.int64),
            "scales": np.array([drawn, length / speed[0], drawn_lengths], np.float32),
            NOISE: noise(int(row.parameters.get("seed", 0))),
        }
        latents, frames = session.run(None, {**feeds, **speaker})
        durations = np.bincount(owners, frames.ravel(), minlength=len(sounds))
        return {
            "latents": np.ascontiguousarray(latents[0].T),
            "durations": np.rint(durations).astype(np.int32),
        }


class Vocoder(RowByRow):
    """Makes the waveform of frames, which equals that part of the whole."""

    def __init__(self, config: VoiceConfig) -> None:
        self._voices = Voices(config, VOCODER)

    def answer(self, row: Row, /) -> Outputs:
        _, session, speaker = self._voices.of(row)
        taken = session.get_inputs()[0]
        part = Stretch.of(row, taken.shape[1])
        latents = np.ascontiguousarray(part.latents.T)[np.newaxis]
        (samples,) = session.run(None, {taken.name: latents, **speaker})
        return {"waveform": part.spoken(samples.ravel(), samples.size // len(part.latents))}


def units_of(sounds: str, known: Mapping[str, Sequence[int]]) -> tuple[Array, Array]:
    """Return the units of a voice for sounds of the front end, and the place of each one's sound.

    There is a sound for each token; `known` are the units of the voice, by what espeak writes.
    """
    units = [*known[BEGIN], *known[BETWEEN]]
    owners, place = [0] * len(units), 0
    while place < len(sounds):
        pair = sounds[place : place + 2]
        written = pair if pair in SOUNDS else sounds[place]
        for unit in SOUNDS.get(written, written):
            found = [*known[unit], *known[BETWEEN]] if unit in known else []
            units += found
            owners += [place] * len(found)
        place += len(written)
    units += known[END]
    owners += [len(sounds) - 1] * len(known[END])
    return np.array(units, np.int64), np.array(owners, np.int64)
