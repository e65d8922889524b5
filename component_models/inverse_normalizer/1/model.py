from typing import Any

from conch.families.inverse_normalizer.normalizer import InverseNormalizer, InverseNormalizerConfig
from conch.triton import read_parameters, respond, settled


class TritonPythonModel:
    """Numbers, dates and amounts in digits."""

    def initialize(self, args: dict[str, str]) -> None:
        config = read_parameters(InverseNormalizerConfig, args)
        self.component = settled(InverseNormalizer(config))

    def execute(self, requests: list[Any]) -> list[Any]:
        return respond(requests, self.component)
