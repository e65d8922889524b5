from typing import Any

from conch.families.search.graphs import LiveConfig
from conch.families.transducer.networks import TransducerStreamingEncoder
from conch.triton import read_parameters, respond, settled
from conch.triton.metrics import publish_streams


class TritonPythonModel:
    """A stream's samples, piece by piece, to the frames of a transducer."""

    def initialize(self, args: dict[str, str]) -> None:
        self.component = settled(TransducerStreamingEncoder(read_parameters(LiveConfig, args)))
        self.publisher = publish_streams(args, self.component)

    def execute(self, requests: list[Any]) -> list[Any]:
        return respond(requests, self.component)

    def finalize(self) -> None:
        self.publisher.close()
        self.component.close()
