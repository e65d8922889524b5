from typing import Any

from conch.component.parameters import NiceConfig
from conch.families.speakers.components import EmbeddingComponent
from conch.triton import read_parameters, respond, settled


class TritonPythonModel:
    """What does each voice sound like?"""

    def initialize(self, args: dict[str, str]) -> None:
        self.component = settled(EmbeddingComponent(read_parameters(NiceConfig, args)))

    def execute(self, requests: list[Any]) -> list[Any]:
        return respond(requests, self.component)
