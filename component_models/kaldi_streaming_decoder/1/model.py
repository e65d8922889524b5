from typing import Any

from conch.decoding.streaming_decoder import StreamingDecoder
from conch.families.kaldi.decoder import KaldiDecoder, KaldiStreamingDecoderConfig
from conch.triton import read_parameters, respond, settled
from conch.triton.metrics import publish_streams


class TritonPythonModel:
    """A stream's samples, chunk by chunk, to the text so far."""

    def initialize(self, args: dict[str, str]) -> None:
        config = read_parameters(KaldiStreamingDecoderConfig, args)
        self.component = settled(StreamingDecoder(KaldiDecoder(config), config.stream_ttl_s))
        self.publisher = publish_streams(args, self.component)

    def execute(self, requests: list[Any]) -> list[Any]:
        return respond(requests, self.component)

    def finalize(self) -> None:
        self.publisher.close()
        self.component.close()
