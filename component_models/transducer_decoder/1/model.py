from typing import Any

from conch.families.transducer.decoder import TransducerDecoder, TransducerDecoderConfig
from conch.triton import read_parameters, respond, settled


class TritonPythonModel:
    """The frames of a transducer to text."""

    def initialize(self, args: dict[str, str]) -> None:
        self.component = settled(TransducerDecoder(read_parameters(TransducerDecoderConfig, args)))

    def execute(self, requests: list[Any]) -> list[Any]:
        return respond(requests, self.component)
