from typing import Any

from conch.families.kokoro.gradient import GradientConfig, KokoroGradient
from conch.triton import read_parameters, respond, settled


class TritonPythonModel:
    """How does a voice sound more like a recording?"""

    def initialize(self, args: dict[str, str]) -> None:
        self.component = settled(KokoroGradient(read_parameters(GradientConfig, args)))

    def execute(self, requests: list[Any]) -> list[Any]:
        return respond(requests, self.component)
