from typing import Any

from conch.families.funasr.online import OnlineParaformerComponent
from conch.families.search.graphs import DecoderConfig
from conch.triton import read_parameters, respond, settled


class TritonPythonModel:
    """A segment's waveform to the text of an online Paraformer."""

    def initialize(self, args: dict[str, str]) -> None:
        self.component = settled(OnlineParaformerComponent(read_parameters(DecoderConfig, args)))

    def execute(self, requests: list[Any]) -> list[Any]:
        return respond(requests, self.component)
