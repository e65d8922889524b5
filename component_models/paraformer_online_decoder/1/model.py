from typing import Any

from conch.decoding.streaming_decoder import StreamingDecoder
from conch.families.funasr.online import OnlineDecoderConfig, UnitSearcher
from conch.triton import read_parameters, respond, settled
from conch.triton.metrics import publish_streams


class TritonPythonModel:
    """A stream's units, chunk by chunk, to the text so far."""

    def initialize(self, args: dict[str, str]) -> None:
        config = read_parameters(OnlineDecoderConfig, args)
        self.component = settled(StreamingDecoder(UnitSearcher(config), config.stream_ttl_s))
        self.publisher = publish_streams(args, self.component)

    def execute(self, requests: list[Any]) -> list[Any]:
        return respond(requests, self.component)

    def finalize(self) -> None:
        self.publisher.close()
        self.component.close()
