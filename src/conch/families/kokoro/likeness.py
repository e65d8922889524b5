"""The `voice_style` component: the mix of voices that is nearest to a recording.

It is no cloning, but where fitting a voice begins.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.optimize import nnls

from conch.component import SAMPLE_RATE, FloatArray, Outputs, Row, RowByRow, bytes_array, unit
from conch.component.parameters import NiceConfig
from conch.component.pitch import median_pitch
from conch.families.kokoro import NAMES
from conch.families.kokoro.components import TIMBRE, TIMBRE_ROW, mixed, opened_styles
from conch.families.speakers import MAX_PIECE_S
from conch.families.speakers.components import EmbeddingComponent
from conch.wire.errors import AudioError, InvalidRequestError

LEAST_S, MOST_S = 3.0, 20.0
MOST_MIXED, LEAST_SHARE = 3, 0.05
"""Voices of a mix, and the least share of one."""
EMBEDDINGS = Path(__file__).with_name("embeddings.npy")
"""Embeddings of the voices, of unit length, `[voices, size]`, by lab.training.kokoro.embeddings."""
PITCHES: FloatArray = np.array(
    [
        *(144, 176, 200, 192, 209, 158, 146, 154, 174, 195, 148),
        *(116, 107, 159, 140, 128, 114, 83, 110, 154),
        *(208, 182, 199, 198),
        *(126, 117, 144, 89),
    ],
    np.float32,
)
"""Median pitch of each voice in Hz, by lab.training.kokoro.embeddings."""
NEAR, FEWEST = 1.3, 4
"""Largest factor between the pitches of a recording and of a voice in its mix, and the number of
voices that may be in it at any pitch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VoiceStyleConfig(NiceConfig):
    kokoro: str = ""


class VoiceStyle(RowByRow):
    def __init__(self, config: VoiceStyleConfig) -> None:
        self._network = EmbeddingComponent(config)
        self._embeddings: FloatArray = np.load(EMBEDDINGS)
        self._styles = np.array(opened_styles(config.kokoro)[:, TIMBRE_ROW, TIMBRE])

    def answer(self, row: Row, /) -> Outputs:
        if "embedding" in row.inputs:
            embedding = unit(row.inputs["embedding"].ravel())
            if embedding.shape != self._embeddings.shape[1:]:
                size = self._embeddings.shape[1]
                raise InvalidRequestError(
                    f"input 'embedding' takes {size} numbers; sent: {len(embedding)}"
                )
            pitch = float(row.inputs.get("pitch", np.zeros(1)).ravel()[0])
        elif "waveform" in row.inputs:
            embedding = embedding_of(self._network, row)
            pitch = median_pitch(row.inputs["waveform"])
        else:
            raise InvalidRequestError("one of the inputs 'waveform' and 'embedding' is needed")
        style = nearest(embedding, self._embeddings, pitch)
        factor = pitch / float(mixed(PITCHES, style)) if pitch > 0 else 1.0
        return {
            "style": bytes_array([style]),
            "pitch": np.array([np.clip(factor, 1 / NEAR, NEAR)], np.float32),
            "timbre": mixed(self._styles, style),
            "deviation": self._styles.std(axis=0),
            "embedding": embedding,
        }


def embedding_of(network: Callable[[Sequence[Row]], list[Outputs]], row: Row) -> FloatArray:
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
    return unit(unit(network([Row(pieces)])[0]["embeddings"]).sum(axis=0))


def nearest(embedding: FloatArray, embeddings: FloatArray, pitch: float = 0.0) -> str:
    """Return the mix of voices nearest to an embedding, of those near its pitch in Hz if known."""
    allowed = np.arange(len(embeddings))
    if pitch > 0:
        apart = np.abs(np.log(PITCHES / pitch))
        allowed = np.union1d(np.argsort(apart)[:FEWEST], np.flatnonzero(apart < np.log(NEAR)))
    shares, _ = nnls(embeddings[allowed].T.astype(np.float64), embedding.astype(np.float64))
    chosen = np.argsort(-shares)[:MOST_MIXED]
    chosen = chosen[shares[chosen] > LEAST_SHARE * shares.sum()]
    if not len(chosen):  # it is unlike all of them
        chosen, shares = np.argsort(-embeddings[allowed] @ embedding)[:1], np.ones(len(allowed))
    weights = shares[chosen] / shares[chosen].sum()
    parts = zip(allowed[chosen], weights, strict=True)
    return ",".join(f"{NAMES[voice]}:{weight:.2f}" for voice, weight in parts)
