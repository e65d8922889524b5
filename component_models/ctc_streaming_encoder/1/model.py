from typing import Any

from conch.families.ctc.encoder import CtcStreamingEncoderConfig, streaming_encoder
from conch.triton import read_parameters, respond, settled
from conch.triton.metrics import publish_streams


class TritonPythonModel:
    """A stream's samples, piece by piece, to the log probabilities of units."""

    def initialize(self, args: dict[str, str]) -> None:
        self.component = settled(
            streaming_encoder(read_parameters(CtcStreamingEncoderConfig, args))
        )
        self.publisher = publish_streams(args, self.component)

    def execute(self, requests: list[Any]) -> list[Any]:
        return respond(requests, self.component)

    def finalize(self) -> None:
        self.publisher.close()
        self.component.close()
