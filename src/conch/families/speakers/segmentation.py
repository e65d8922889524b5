"""The `speaker_segmentation` component."""

import numpy as np

from conch.component import Array, Outputs, Row, RowByRow
from conch.component.waveform import SAMPLE_RATE
from conch.families.speakers.declaration import FRAME_FIELD, MAX_S, MAX_WINDOW_S
from conch.families.speakers.weights import SEGMENTATION, SpeakersConfig, open_graph
from conch.wire.errors import InvalidRequestError

BATCH = 8
"""Windows of one call of the network."""


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
        place = int(is_fitting.argmin())
        raise InvalidRequestError(
            f"a span takes {least} to {most} samples within the waveform of {num_samples}; "
            f"sent: {starts[place]} to {ends[place]}"
        )
    spans: Array = np.stack([starts, ends], axis=1)
    return spans


class SegmentationComponent(RowByRow):
    """Says how many speak when, and which of them are the same in a window."""

    def __init__(self, config: SpeakersConfig) -> None:
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
        found = []
        for first in range(0, len(windows), BATCH):
            spans = windows[first : first + BATCH]
            rows = np.stack([np.pad(waveform[start:end], (0, missing)) for start, end in spans])
            found.append(self._session.run(["log_probs"], {"waveform": rows})[0])
        return {"log_probs": np.concatenate(found)}
