"""The `ctc_encoder` component: the CTC model in full context."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from conch.component import Outputs, Row
from conch.component.arrays import FloatArray
from conch.component.batches import buckets
from conch.component.features import HISTORY, streaming_log_mel
from conch.component.parameters import DeviceConfig
from conch.component.waveform import SAMPLE_RATE
from conch.families.ctc.onnx_model import CtcGraph
from conch.families.ctc.vocabulary import ENCODER_FRAME_SAMPLES
from conch.wire.errors import ConfigError
from conch.wire.limits import MAX_SEGMENT_S


@dataclass(frozen=True, slots=True, kw_only=True)
class CtcEncoderConfig(DeviceConfig):
    """Parameters of the `ctc_encoder` component."""

    max_padding: float = 0.2
    """Largest share of padding in a row of a batch. Rows that differ more are encoded apart."""
    max_batch_s: float = 8.0
    """Largest batch in seconds of audio, with padding; a longer row is encoded alone. A CPU gains
    nothing from more, a GPU needs hundreds."""


class CtcEncoder:
    """Turns waveforms into log probabilities of units."""

    def __init__(self, config: CtcEncoderConfig) -> None:
        """Load the model.

        Raises:
            ConfigError: the model cannot be loaded, or a limit of the batches is out of range.
        """
        if not 0 <= config.max_padding < 1 or config.max_batch_s <= 0:
            raise ConfigError("max_padding must be in [0, 1) and max_batch_s above 0")
        self._config = config
        self._graph = CtcGraph(config)
        self.vocabulary = self._graph.vocabulary

    def __call__(self, rows: Sequence[Row], /) -> list[Outputs]:
        """Return the outputs of rows with `waveform`; rows of similar length share a batch."""
        waveforms = [row.segment(MAX_SEGMENT_S) for row in rows]
        found: dict[int, FloatArray] = {}
        max_samples = round(self._config.max_batch_s * SAMPLE_RATE)
        for batch in buckets([*map(len, waveforms)], self._config.max_padding, max_samples):
            encoded = self.encode([waveforms[index] for index in batch])
            found.update(zip(batch, encoded, strict=True))
        log_probs = (found[index] for index in range(len(rows)))
        return [
            {"log_probs": item, "log_probs_lens": np.array([len(item)], np.int32)}
            for item in log_probs
        ]

    def encode(self, waveforms: Sequence[FloatArray]) -> list[FloatArray]:
        """Return the log probabilities of waveforms, float32 `[samples]` at 16 kHz, as one batch.

        Each has the shape `[ceil(samples / 320 / stack), vocab]`, float32.
        """
        stack = self._graph.vocabulary.stack
        frame = ENCODER_FRAME_SAMPLES * stack
        lens = [-(-len(item) // frame) for item in waveforms]  # in output frames
        features = np.zeros((len(waveforms), max(lens) * 2 * stack, self._graph.n_mels), np.float32)
        for row, (waveform, length) in enumerate(zip(waveforms, lens, strict=True)):
            padded = np.pad(waveform, (HISTORY, length * frame - len(waveform)))
            features[row, : length * 2 * stack] = streaming_log_mel(padded, self._graph.n_mels)
        log_probs = self._graph.log_probs(features, np.array(lens, np.int64) * 2 * stack)
        return [log_probs[row, :length] for row, length in enumerate(lens)]
