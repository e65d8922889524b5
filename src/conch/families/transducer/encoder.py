"""The `transducer_encoder` component: recordings to what the decoder reads."""

from conch.families.search.folders import RecordingsConfig
from conch.families.search.recordings import ExportedEncoder, RecordingEncoder
from conch.families.transducer.declaration import FRAMES
from conch.families.transducer.graphs import opened_encoder, opened_folder


class TransducerEncoder(RecordingEncoder):
    """Turns waveforms into frames for the decoder."""

    def __init__(self, config: RecordingsConfig) -> None:
        graph = opened_encoder(opened_folder(config), config.threads)
        super().__init__(ExportedEncoder(graph), FRAMES, config.max_padding, config.max_batch_s)
