import gc
from typing import Any

from conch.families.ctc.streaming_decoder import (
    CtcStreamingDecoder,
    CtcStreamingDecoderConfig,
)
from conch.triton import read_parameters, respond, settled
from conch.triton.metrics import publish_streams


class TritonPythonModel:
    """A stream's log probabilities, chunk by chunk, to the text so far."""

    def initialize(self, args: dict[str, str]) -> None:
        self.component = settled(
            CtcStreamingDecoder(read_parameters(CtcStreamingDecoderConfig, args))
        )
        # A full collection would walk all that was loaded, and hold up every stream for 0.1 s.
        gc.freeze()
        self.publisher = publish_streams(args, self.component)

    def execute(self, requests: list[Any]) -> list[Any]:
        return respond(requests, self.component)

    def finalize(self) -> None:
        self.publisher.close()
        self.component.close()
