"""The `voice_style` component: the mix of voices that is nearest to a recording.

It is no cloning: how near it comes is in its answer.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from scipy.optimize import nnls

from conch.component import SAMPLE_RATE, FloatArray, Outputs, Row, RowByRow, bytes_array
from conch.families.kokoro import NAMES
from conch.families.speakers import MAX_PIECE_S
from conch.families.speakers.clustering import unit
from conch.families.speakers.components import EmbeddingComponent
from conch.families.speakers.weights import SpeakersConfig
from conch.wire.errors import AudioError, InvalidRequestError

LEAST_S, MOST_S = 3.0, 20.0
MOST_MIXED, LEAST_SHARE = 3, 0.05
"""Voices of a mix, and the least share of one."""
SOUNDS = Path(__file__).with_name("sounds.npy")
"""Embeddings of the voices, of unit length, `[voices, size]`, by lab.training.kokoro.sounds."""


class VoiceStyle(RowByRow):
    def __init__(self, config: SpeakersConfig) -> None:
        self._embedding = EmbeddingComponent(config)
        self._sounds: FloatArray = np.load(SOUNDS)

    def answer(self, row: Row, /) -> Outputs:
        if "embedding" in row.inputs:
            sound = unit(row.inputs["embedding"].ravel())
            if sound.shape != self._sounds.shape[1:]:
                raise InvalidRequestError(
                    f"input 'embedding' takes {self._sounds.shape[1]} numbers; sent: {len(sound)}"
                )
        elif "waveform" in row.inputs:
            sound = sound_of(self._embedding, row)
        else:
            raise InvalidRequestError("one of the inputs 'waveform' and 'embedding' is needed")
        style, similarity = nearest(sound, self._sounds)
        return {"style": bytes_array([style]), "similarity": np.array([similarity], np.float32)}


def sound_of(embedding: Callable[[Sequence[Row]], list[Outputs]], row: Row) -> FloatArray:
    """Return the embedding of a row's waveform, of unit length `[size]`."""
    waveform = row.segment(MOST_S)
    if len(waveform) < LEAST_S * SAMPLE_RATE:
        raise AudioError(
            f"a voice takes {LEAST_S:g} to {MOST_S:g} s of audio; sent: "
            f"{len(waveform) / SAMPLE_RATE:.1f} s"
        )
    size = round(MAX_PIECE_S * SAMPLE_RATE)
    starts = np.arange(0, len(waveform) - size + 1, size // 2, dtype=np.int32)
    pieces = {"waveform": waveform, "starts": starts, "ends": starts + size}
    return unit(unit(embedding([Row(pieces)])[0]["embeddings"]).sum(axis=0))


def nearest(sound: FloatArray, sounds: FloatArray) -> tuple[str, float]:
    """Return the mix of voices nearest to an embedding, and its cosine."""
    shares, _ = nnls(sounds.T.astype(np.float64), sound.astype(np.float64))
    chosen = np.argsort(-shares)[:MOST_MIXED]
    chosen = chosen[shares[chosen] > LEAST_SHARE * shares.sum()]
    if not len(chosen):  # it is unlike all of them
        chosen, shares = np.argsort(-sounds @ sound)[:1], np.ones(len(sounds))
    weights = shares[chosen] / shares[chosen].sum()
    similarity = float(unit(weights @ sounds[chosen]) @ sound)
    parts = zip(chosen, weights, strict=True)
    return ",".join(f"{NAMES[voice]}:{weight:.2f}" for voice, weight in parts), similarity
