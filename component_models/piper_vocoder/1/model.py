from typing import Any

from conch.families.piper.components import PiperVocoder
from conch.families.speech.graphs import VoiceConfig
from conch.triton import read_parameters, respond, settled


class TritonPythonModel:
    """What does it sound like?"""

    def initialize(self, args: dict[str, str]) -> None:
        self.component = settled(PiperVocoder(read_parameters(VoiceConfig, args)))

    def execute(self, requests: list[Any]) -> list[Any]:
        return respond(requests, self.component)
