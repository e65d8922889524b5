from typing import Any

from conch.families.whisper.decoder import WhisperDecoder, WhisperDecoderConfig
from conch.triton import read_parameters, respond, settled


class TritonPythonModel:
    """Hidden states to n-best texts, or to the times of a text's words."""

    def initialize(self, args: dict[str, str]) -> None:
        self.component = settled(WhisperDecoder(read_parameters(WhisperDecoderConfig, args)))

    def execute(self, requests: list[Any]) -> list[Any]:
        return respond(requests, self.component)
