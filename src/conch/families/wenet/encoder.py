"""The `wenet_encoder` and `wenet_streaming_encoder` components: audio to frames."""

from dataclasses import dataclass

import numpy as np

from conch.component import Array
from conch.component.arrays import FloatArray
from conch.component.waveform import SAMPLE_RATE
from conch.families.ctc.exported import speech_outputs
from conch.families.search.live import LiveEncoder
from conch.families.search.recordings import ExportedEncoder, RecordingEncoder
from conch.families.wenet.declaration import FRAMES
from conch.families.wenet.networks import WenetConfig, WenetGraph, opened_folder, vocabulary_of


@dataclass(frozen=True, slots=True, kw_only=True)
class WenetEncoderConfig(WenetConfig):
    """Parameters of the `wenet_encoder` component."""

    max_padding: float = 0.2
    """Largest share of padding in a row of a batch. Rows that differ more are encoded apart."""
    max_batch_s: float = 16.0
    """Largest batch in seconds of audio, with padding; a longer row is encoded alone."""


class WenetEncoder(RecordingEncoder):
    """Turns waveforms into frames for the decoder."""

    def __init__(self, config: WenetEncoderConfig) -> None:
        """Load the encoder.

        Raises:
            ConfigError: it cannot be loaded, or a limit of the batches is out of range.
        """
        graph = WenetGraph(opened_folder(config), config.threads)
        super().__init__(ExportedEncoder(graph), FRAMES, config.max_padding, config.max_batch_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class WenetStreamingEncoderConfig(WenetConfig):
    """Parameters of the `wenet_streaming_encoder` component."""

    stream_ttl_s: float = 90.0
    """Seconds without a chunk after which a stream expires."""


class WenetStreamingEncoder(LiveEncoder):
    """Turns samples of streams into frames for the decoder.

    An encoder of recordings has no live part: then every stream is refused.
    """

    def __init__(self, config: WenetStreamingEncoderConfig) -> None:
        """Load the encoder.

        Raises:
            ConfigError: it cannot be loaded.
        """
        found = opened_folder(config)
        self._num_units, self._silent = len(found.tokens), vocabulary_of(found).silent
        self._frame = found.encoder.subsampling * SAMPLE_RATE // 100
        graph = WenetGraph(found, config.threads) if found.hears_live else None
        super().__init__(graph, FRAMES, "wenet", config.model, config.stream_ttl_s)

    def outputs(self, frames: FloatArray) -> dict[str, Array]:
        """See `StreamEncoder`."""
        if not len(frames):
            frames = np.zeros((0, self._num_units), np.float32)
        speech = speech_outputs(frames[:, : self._num_units], self._silent, self._frame)
        return super().outputs(frames) | speech
