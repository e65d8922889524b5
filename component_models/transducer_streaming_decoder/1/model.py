from typing import Any

from conch.families.transducer.decoder import (
    TransducerStreamingDecoder,
    TransducerStreamingDecoderConfig,
)
from conch.triton import read_parameters, respond, settled
from conch.triton.metrics import publish_streams


class TritonPythonModel:
    """A stream's frames, chunk by chunk, to the text so far."""

    def initialize(self, args: dict[str, str]) -> None:
        self.component = settled(
            TransducerStreamingDecoder(read_parameters(TransducerStreamingDecoderConfig, args))
        )
        self.publisher = publish_streams(args, self.component)

    def execute(self, requests: list[Any]) -> list[Any]:
        return respond(requests, self.component)

    def finalize(self) -> None:
        self.publisher.close()
        self.component.close()
