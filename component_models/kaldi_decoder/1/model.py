from typing import Any

from conch.families.kaldi.decoder import KaldiDecoder, KaldiDecoderConfig
from conch.triton import read_parameters, respond, settled


class TritonPythonModel:
    """A segment's waveform to the texts of a Kaldi model."""

    def initialize(self, args: dict[str, str]) -> None:
        self.component = settled(KaldiDecoder(read_parameters(KaldiDecoderConfig, args)))

    def execute(self, requests: list[Any]) -> list[Any]:
        return respond(requests, self.component)
