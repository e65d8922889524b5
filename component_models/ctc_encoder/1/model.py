from typing import Any

from conch.families.ctc.encoder import CtcEncoder, CtcEncoderConfig
from conch.triton import read_parameters, respond, settled


class TritonPythonModel:
    """A segment's waveform to the log probabilities of units."""

    def initialize(self, args: dict[str, str]) -> None:
        self.component = settled(CtcEncoder(read_parameters(CtcEncoderConfig, args)))

    def execute(self, requests: list[Any]) -> list[Any]:
        return respond(requests, self.component)
