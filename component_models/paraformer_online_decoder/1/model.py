from typing import Any

from conch.families.funasr.unit_stream import (
    OnlineDecoder,
    OnlineDecoderConfig,
)
from conch.triton import read_parameters, respond, settled
from conch.triton.metrics import publish_streams


class TritonPythonModel:
    """A stream's units, chunk by chunk, to the text so far."""

    def initialize(self, args: dict[str, str]) -> None:
        self.component = settled(OnlineDecoder(read_parameters(OnlineDecoderConfig, args)))
        self.publisher = publish_streams(args, self.component)

    def execute(self, requests: list[Any]) -> list[Any]:
        return respond(requests, self.component)

    def finalize(self) -> None:
        self.publisher.close()
        self.component.close()
