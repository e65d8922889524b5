from typing import Any

from conch.families.search.graphs import DecoderConfig
from conch.families.wenet.decoder import WenetDecoder
from conch.triton import read_parameters, respond, settled


class TritonPythonModel:
    """The frames of a WeNet model to text."""

    def initialize(self, args: dict[str, str]) -> None:
        self.component = settled(WenetDecoder(read_parameters(DecoderConfig, args)))

    def execute(self, requests: list[Any]) -> list[Any]:
        return respond(requests, self.component)
