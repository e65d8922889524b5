from typing import Any

from conch.families.kokoro.components import KokoroAcoustic, KokoroConfig
from conch.triton import read_parameters, respond, settled


class TritonPythonModel:
    """What does the voice do, and when?"""

    def initialize(self, args: dict[str, str]) -> None:
        self.component = settled(KokoroAcoustic(read_parameters(KokoroConfig, args)))

    def execute(self, requests: list[Any]) -> list[Any]:
        return respond(requests, self.component)
