"""The `transducer_encoder` and `transducer_streaming_encoder` components: audio to frames."""

from conch.families.search.graphs import LiveConfig, RecordingsConfig
from conch.families.search.live import LiveEncoder
from conch.families.search.recordings import ExportedEncoder, RecordingEncoder
from conch.families.transducer.declaration import FRAMES
from conch.families.transducer.networks import opened_encoder, opened_folder


class TransducerEncoder(RecordingEncoder):
    def __init__(self, config: RecordingsConfig) -> None:
        graph = opened_encoder(opened_folder(config), config.threads)
        super().__init__(ExportedEncoder(graph), FRAMES, config.max_padding, config.max_batch_s)


class TransducerStreamingEncoder(LiveEncoder):
    """Turns samples of streams into frames; refuses all for an encoder of recordings."""

    def __init__(self, config: LiveConfig) -> None:
        found = opened_folder(config)
        graph = opened_encoder(found, config.threads) if found.encoder.is_live else None
        super().__init__(graph, FRAMES, "transducer", config.model, config.stream_ttl_s)
