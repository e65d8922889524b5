"""The `transducer_streaming_encoder` component: live audio to frames, chunk by chunk."""

from conch.families.search.folders import LiveConfig
from conch.families.search.live import LiveEncoder
from conch.families.transducer.declaration import FRAMES
from conch.families.transducer.graphs import opened_encoder, opened_folder


class TransducerStreamingEncoder(LiveEncoder):
    """Turns samples of streams into frames for the decoder.

    An encoder of recordings has no live part: then every stream is refused.
    """

    def __init__(self, config: LiveConfig) -> None:
        found = opened_folder(config)
        graph = opened_encoder(found, config.threads) if found.encoder.is_live else None
        super().__init__(graph, FRAMES, "transducer", config.model, config.stream_ttl_s)
