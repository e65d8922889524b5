"""The `wenet_encoder` and `wenet_streaming_encoder` components: audio to frames."""

import numpy as np

from conch.component import Array
from conch.component.arrays import FloatArray
from conch.component.waveform import SAMPLE_RATE
from conch.families.ctc.exported import speech_outputs
from conch.families.search.graphs import LiveConfig, RecordingsConfig
from conch.families.search.live import LiveEncoder
from conch.families.search.recordings import ExportedEncoder, RecordingEncoder
from conch.families.wenet.declaration import FRAMES
from conch.families.wenet.networks import WenetGraph, opened_folder, vocabulary_of


class WenetEncoder(RecordingEncoder):
    def __init__(self, config: RecordingsConfig) -> None:
        graph = WenetGraph(opened_folder(config), config.threads)
        super().__init__(ExportedEncoder(graph), FRAMES, config.max_padding, config.max_batch_s)


class WenetStreamingEncoder(LiveEncoder):
    """Turns samples of streams into frames; refuses all for an encoder of recordings."""

    def __init__(self, config: LiveConfig) -> None:
        found = opened_folder(config)
        self._num_units, self._silent = len(found.tokens), vocabulary_of(found).silent
        self._frame = found.encoder.subsampling * SAMPLE_RATE // 100
        graph = WenetGraph(found, config.threads) if found.hears_live else None
        super().__init__(graph, FRAMES, "wenet", config.model, config.stream_ttl_s)

    def outputs(self, frames: FloatArray) -> dict[str, Array]:
        if not len(frames):
            frames = np.zeros((0, self._num_units), np.float32)
        speech = speech_outputs(frames[:, : self._num_units], self._silent, self._frame)
        return super().outputs(frames) | speech
