from typing import Any

from conch.families.smollm2.model import NeuralRescorer, NeuralRescorerConfig
from conch.triton import read_parameters, respond, settled


class TritonPythonModel:
    """How probable texts are as language, after what was said before."""

    def initialize(self, args: dict[str, str]) -> None:
        self.component = settled(NeuralRescorer(read_parameters(NeuralRescorerConfig, args)))

    def execute(self, requests: list[Any]) -> list[Any]:
        return respond(requests, self.component)
