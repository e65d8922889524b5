"""The `ctc_streaming_decoder` component: log probabilities of streams to texts."""

from dataclasses import dataclass
from typing import Any

from conch.decoding.streaming_decoder import StreamingDecoder
from conch.families.ctc.decoder import CtcDecoder, CtcDecoderConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class CtcStreamingDecoderConfig(CtcDecoderConfig):
    """Parameters of the `ctc_streaming_decoder` component."""

    stream_ttl_s: float = 90.0
    """Seconds without a chunk after which a stream expires."""


class CtcStreamingDecoder(StreamingDecoder[Any]):
    """Decoder of log probabilities."""

    def __init__(self, config: CtcStreamingDecoderConfig) -> None:
        """Load the units and the language model.

        Raises:
            ConfigError: one of them is missing or broken.
        """
        super().__init__(CtcDecoder(config), config.stream_ttl_s)
