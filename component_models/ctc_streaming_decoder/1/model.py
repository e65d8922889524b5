import gc
from typing import Any

from conch.decoding.streaming_decoder import StreamingDecoder
from conch.families.ctc.decoder import CtcDecoder, CtcStreamingDecoderConfig
from conch.triton import read_parameters, respond, settled
from conch.triton.metrics import publish_streams


class TritonPythonModel:
    """A stream's log probabilities, chunk by chunk, to the text so far."""

    def initialize(self, args: dict[str, str]) -> None:
        config = read_parameters(CtcStreamingDecoderConfig, args)
        self.component = settled(StreamingDecoder(CtcDecoder(config), config.stream_ttl_s))
        # A full collection would walk all that was loaded, and hold up every stream for 0.1 s.
        gc.freeze()
        self.publisher = publish_streams(args, self.component)

    def execute(self, requests: list[Any]) -> list[Any]:
        return respond(requests, self.component)

    def finalize(self) -> None:
        self.publisher.close()
        self.component.close()
