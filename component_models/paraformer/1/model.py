from typing import Any

from conch.families.funasr.paraformer import ParaformerComponent
from conch.families.search.graphs import DecoderConfig
from conch.triton import read_parameters, respond, settled


class TritonPythonModel:
    """A segment's waveform to the text of a Paraformer."""

    def initialize(self, args: dict[str, str]) -> None:
        self.component = settled(ParaformerComponent(read_parameters(DecoderConfig, args)))

    def execute(self, requests: list[Any]) -> list[Any]:
        return respond(requests, self.component)
