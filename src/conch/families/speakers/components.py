"""The `speaker_segmentation` and `speaker_embedding` components."""

from functools import cache, partial

import numpy as np

from conch.component import SAMPLE_RATE, Array, FloatArray, Outputs, Row, RowByRow
from conch.component.kaldi_fbank import KaldiFbank, icefall_options
from conch.component.parameters import NiceConfig
from conch.families.speakers import FRAME_FIELD, MAX_PIECE_S, MAX_S, MAX_WINDOW_S
from conch.families.speakers.weights import EMBEDDING, NARROW_BAND, SEGMENTATION, open_graph
from conch.wire.errors import InvalidRequestError

BANDS = 80
FRAME_SHIFT, FRAME_LENGTH = 160, 400
"""Samples: 10 and 25 ms."""
_FULL_SCALE = 32_768
"""Kaldi's samples are those of 16-bit files."""
BATCH = 8
"""Windows, or pieces, of one call of the network."""


def spans_of(row: Row, num_samples: int, *, least: int, most: int) -> Array:
    """Return a row's spans, from `starts` to `ends`, int32 `[spans, 2]` in samples.

    Raise an InvalidRequestError if one is not within the waveform, or not `least` to `most` long.
    """
    starts, ends = (row.inputs[name].ravel() for name in ("starts", "ends"))
    if len(starts) != len(ends):
        raise InvalidRequestError(f"starts and ends differ: {len(starts)} and {len(ends)}")
    lengths = ends - starts
    is_fitting = (starts >= 0) & (ends <= num_samples) & (lengths >= least) & (lengths <= most)
    if not is_fitting.all():
        index = int(is_fitting.argmin())
        raise InvalidRequestError(
            f"a span takes {least} to {most} samples within the waveform of {num_samples}; "
            f"sent: {starts[index]} to {ends[index]}"
        )
    return np.asarray(np.stack([starts, ends], axis=1))


class SegmentationComponent(RowByRow):
    """Says how many speak when, and which of them are the same in a window."""

    def __init__(self, config: NiceConfig) -> None:
        self._session = open_graph(config, SEGMENTATION)

    def answer(self, row: Row, /) -> Outputs:
        waveform = row.segment(MAX_S)
        most = round(MAX_WINDOW_S * SAMPLE_RATE)
        windows = spans_of(row, len(waveform), least=1, most=most)
        lengths = np.unique(windows[:, 1] - windows[:, 0])
        if len(lengths) != 1:
            raise InvalidRequestError(
                f"windows take one length; sent: {', '.join(map(str, lengths)) or 'no window'}"
            )
        missing = max(0, FRAME_FIELD - lengths[0])
        log_probs = []
        for first in range(0, len(windows), BATCH):
            spans = windows[first : first + BATCH]
            rows = np.stack([np.pad(waveform[start:end], (0, missing)) for start, end in spans])
            log_probs.append(self._session.run(["log_probs"], {"waveform": rows})[0])
        return {"log_probs": np.concatenate(log_probs)}


def fbank(waveform: FloatArray) -> FloatArray:
    """Return log-mel energies, float32 `[frames, 80]`, at 16 kHz; none of less than 400 samples.

    The embedding was trained with those of Kaldi, up to 8 kHz.
    """
    options = icefall_options(BANDS)
    options.frame_opts.snip_edges = True
    options.mel_opts.high_freq = 0.0
    return KaldiFbank(BANDS, options, _FULL_SCALE).whole(waveform)


class EmbeddingComponent(RowByRow):
    def __init__(self, config: NiceConfig) -> None:
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
        embeddings = np.zeros((len(spans), self._size), np.float32)
        for count in np.unique(counts):
            (indices,) = np.nonzero(counts == count)
            size = FRAME_LENGTH + (count - 1) * FRAME_SHIFT
            for start in range(0, len(indices), BATCH):
                chosen = indices[start : start + BATCH]
                pieces = np.stack([fbank(waveform[at : at + size]) for at in starts[chosen]])
                pieces -= pieces.mean(axis=1, keepdims=True)
                embeddings[chosen] = session.run(["embeddings"], {"features": pieces})[0]
        return {"embeddings": embeddings}
