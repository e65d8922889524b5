"""The `speaker_segmentation` component."""

from collections.abc import Sequence

import numpy as np

from conch.component import Outputs, Row
from conch.families.speakers.declaration import FRAME_FIELD, MAX_WINDOW_S
from conch.families.speakers.weights import SEGMENTATION, SpeakersConfig, open_graph


class SegmentationComponent:
    """Says how many speak when, and which of them are the same in a window."""

    def __init__(self, config: SpeakersConfig) -> None:
        """Load the network.

        Raises:
            ConfigError: it cannot be loaded, or a parameter is out of range.
        """
        self._session = open_graph(config, SEGMENTATION)

    def __call__(self, rows: Sequence[Row], /) -> list[Outputs]:
        """Return the outputs of rows with `waveform`.

        Raises:
            AudioError: a waveform is empty or too long.
        """
        return [self._answer(row) for row in rows]

    def _answer(self, row: Row) -> Outputs:
        waveform = row.segment(MAX_WINDOW_S)
        missing = max(0, FRAME_FIELD - len(waveform))
        padded = np.pad(waveform, (0, missing))[None]
        return {"log_probs": self._session.run(["log_probs"], {"waveform": padded})[0][0]}
