from typing import Any

from conch.families.moonshine.network import EncoderComponent, MoonshineConfig
from conch.triton import read_parameters, respond, settled


class TritonPythonModel:
    """A segment's waveform to hidden states."""

    def initialize(self, args: dict[str, str]) -> None:
        self.component = settled(EncoderComponent(read_parameters(MoonshineConfig, args)))

    def execute(self, requests: list[Any]) -> list[Any]:
        return respond(requests, self.component)
