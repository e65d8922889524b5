import gc
from typing import Any

from conch.families.ctc.decoder import CtcDecoder, CtcDecoderConfig
from conch.triton import read_parameters, respond, settled


class TritonPythonModel:
    """Log probabilities of units to text."""

    def initialize(self, args: dict[str, str]) -> None:
        self.component = settled(CtcDecoder(read_parameters(CtcDecoderConfig, args)))
        # A full collection would walk all that was loaded, and hold up every stream for 0.1 s.
        gc.freeze()

    def execute(self, requests: list[Any]) -> list[Any]:
        return respond(requests, self.component)
