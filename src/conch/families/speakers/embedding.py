"""The `speaker_embedding` component."""

from functools import cache, partial

import numpy as np

from conch.component import Outputs, Row, RowByRow
from conch.component.arrays import FloatArray
from conch.component.kaldi_fbank import KaldiFbank, icefall_options
from conch.component.waveform import SAMPLE_RATE
from conch.families.speakers.declaration import MAX_PIECE_S, MAX_S
from conch.families.speakers.segmentation import spans_of
from conch.families.speakers.weights import EMBEDDING, NARROW_BAND, SpeakersConfig, open_graph

BANDS = 80
FRAME_SHIFT, FRAME_LENGTH = 160, 400
"""Samples: 10 and 25 ms."""
_FULL_SCALE = 32_768
"""Kaldi's samples are those of 16-bit files."""
BATCH = 8
"""Pieces of one call of the network."""


def fbank(waveform: FloatArray) -> FloatArray:
    """Return log-mel energies, float32 `[frames, 80]`, at 16 kHz; none of less than 400 samples.

    The embedding was trained with those of Kaldi, up to 8 kHz.
    """
    options = icefall_options(BANDS)
    options.frame_opts.snip_edges = True
    options.mel_opts.high_freq = 0.0
    return KaldiFbank(BANDS, options, _FULL_SCALE).whole(waveform)


class EmbeddingComponent(RowByRow):
    def __init__(self, config: SpeakersConfig) -> None:
        # Few hear telephone calls.
        self._opened = cache(partial(open_graph, config))
        self._size = self._opened(EMBEDDING).get_outputs()[0].shape[1]

    def answer(self, row: Row, /) -> Outputs:
        waveform = row.segment(MAX_S)
        most = round(MAX_PIECE_S * SAMPLE_RATE)
        spans = spans_of(row, len(waveform), least=FRAME_LENGTH, most=most)
        starts = spans[:, 0] // FRAME_SHIFT * FRAME_SHIFT
        counts = (spans[:, 1] - spans[:, 0] - FRAME_LENGTH) // FRAME_SHIFT + 1
        session = self._opened(NARROW_BAND if row.parameters.get("narrow_band") else EMBEDDING)
        found = np.zeros((len(spans), self._size), np.float32)
        for count in np.unique(counts):
            (places,) = np.nonzero(counts == count)
            size = FRAME_LENGTH + (count - 1) * FRAME_SHIFT
            for start in range(0, len(places), BATCH):
                chosen = places[start : start + BATCH]
                pieces = np.stack([fbank(waveform[at : at + size]) for at in starts[chosen]])
                pieces -= pieces.mean(axis=1, keepdims=True)
                found[chosen] = session.run(["embeddings"], {"features": pieces})[0]
        return {"embeddings": found}
