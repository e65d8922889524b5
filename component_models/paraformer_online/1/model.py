from typing import Any

from conch.families.funasr.online import OnlineParaformer
from conch.families.search.graphs import DecoderConfig
from conch.triton import read_parameters, respond, settled


class TritonPythonModel:
    """A segment's waveform to the text of an online Paraformer."""

    def initialize(self, args: dict[str, str]) -> None:
        self.component = settled(OnlineParaformer(read_parameters(DecoderConfig, args)))

    def execute(self, requests: list[Any]) -> list[Any]:
        return respond(requests, self.component)
