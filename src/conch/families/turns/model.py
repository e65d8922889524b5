"""The `end_of_turn` component."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from conch.component import SAMPLE_RATE, Outputs, Row, RowByRow
from conch.component.features import FRAME_SHIFT, N_FFT, log_mel_spectrogram
from conch.component.onnx import open_network
from conch.component.parameters import NiceConfig, be_nice
from conch.families.turns import MODEL as END_OF_TURN
from conch.families.turns import PACKAGE, WINDOW_S
from conch.packaged import packaged

WINDOW = round(WINDOW_S * SAMPLE_RATE)


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnsConfig(NiceConfig):
    intra_threads: int = 1


class EndOfTurnComponent(RowByRow):
    def __init__(self, config: TurnsConfig) -> None:
        be_nice(config.nice)
        (name,) = END_OF_TURN.files
        path = Path(config.model) if config.model else packaged(PACKAGE, "", END_OF_TURN.sha256)
        path = path if config.model else path / name
        self._session = open_network(PACKAGE.what, path, config.threads)

    def answer(self, row: Row, /) -> Outputs:
        waveform = row.segment(WINDOW_S)
        samples = np.pad(waveform, (WINDOW - len(waveform), 0))
        samples = (samples - samples.mean()) / np.sqrt(samples.var() + 1e-7)
        # The model's features mirror the waveform at its end, too.
        samples = np.pad(samples, (0, N_FFT // 2), mode="reflect")
        features = log_mel_spectrogram(samples, WINDOW // FRAME_SHIFT)
        [probability] = self._session.run(None, {"input_features": features[None]})
        return {"probability": np.asarray(probability, np.float32).reshape(1)}
