from typing import Any

from conch.families.kokoro.components import KokoroConfig, KokoroVocoder
from conch.triton import read_parameters, respond, settled


class TritonPythonModel:
    """What does it sound like?"""

    def initialize(self, args: dict[str, str]) -> None:
        self.component = settled(KokoroVocoder(read_parameters(KokoroConfig, args)))

    def execute(self, requests: list[Any]) -> list[Any]:
        return respond(requests, self.component)
