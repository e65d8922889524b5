"""The `speaker_segmentation` component."""

import numpy as np

from conch.component import Outputs, Row, RowByRow
from conch.component.waveform import SAMPLE_RATE
from conch.families.speakers.declaration import FRAME_FIELD, MAX_S, MAX_WINDOW_S
from conch.families.speakers.spans import spans_of
from conch.families.speakers.weights import SEGMENTATION, SpeakersConfig, open_graph
from conch.wire.errors import InvalidRequestError

BATCH = 8
"""Windows of one call of the network."""


class SegmentationComponent(RowByRow):
    """Says how many speak when, and which of them are the same in a window."""

    def __init__(self, config: SpeakersConfig) -> None:
        """Raise a ConfigError if the network cannot be loaded or a parameter is unfit."""
        self._session = open_graph(config, SEGMENTATION)

    def answer(self, row: Row, /) -> Outputs:
        """Raise an AudioError for a bad waveform, an InvalidRequestError for bad windows."""
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
