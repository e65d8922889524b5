from typing import Any

from conch.families.speakers.components import EmbeddingComponent
from conch.families.speakers.weights import SpeakersConfig
from conch.triton import read_parameters, respond, settled


class TritonPythonModel:
    """What does each voice sound like?"""

    def initialize(self, args: dict[str, str]) -> None:
        self.component = settled(EmbeddingComponent(read_parameters(SpeakersConfig, args)))

    def execute(self, requests: list[Any]) -> list[Any]:
        return respond(requests, self.component)
