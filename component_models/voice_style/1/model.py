from typing import Any

from conch.families.kokoro.likeness import VoiceStyle, VoiceStyleConfig
from conch.triton import read_parameters, respond, settled


class TritonPythonModel:
    """Which voice is like this one?"""

    def initialize(self, args: dict[str, str]) -> None:
        self.component = settled(VoiceStyle(read_parameters(VoiceStyleConfig, args)))

    def execute(self, requests: list[Any]) -> list[Any]:
        return respond(requests, self.component)
