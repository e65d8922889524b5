"""The `transducer_streaming_encoder` component: live audio to frames, chunk by chunk."""

from dataclasses import dataclass

from conch.families.search.live import LiveEncoder
from conch.families.transducer.declaration import FRAMES
from conch.families.transducer.graphs import TransducerConfig, opened_encoder, opened_folder


@dataclass(frozen=True, slots=True, kw_only=True)
class TransducerStreamingEncoderConfig(TransducerConfig):
    """Parameters of the `transducer_streaming_encoder` component."""

    stream_ttl_s: float = 90.0
    """Seconds without a chunk after which a stream expires."""


class TransducerStreamingEncoder(LiveEncoder):
    """Turns samples of streams into frames for the decoder.

    An encoder of recordings has no live part: then every stream is refused.
    """

    def __init__(self, config: TransducerStreamingEncoderConfig) -> None:
        """Load the encoder.

        Raises:
            ConfigError: it cannot be loaded.
        """
        found = opened_folder(config)
        graph = opened_encoder(found, config.threads) if found.encoder.is_live else None
        super().__init__(graph, FRAMES, "transducer", config.model, config.stream_ttl_s)
