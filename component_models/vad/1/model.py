from typing import Any

from conch.families.silero.vad import SileroConfig, SileroVad
from conch.triton import read_parameters, respond, settled


class TritonPythonModel:
    """Where is speech?"""

    def initialize(self, args: dict[str, str]) -> None:
        self.component = settled(SileroVad(read_parameters(SileroConfig, args)))

    def execute(self, requests: list[Any]) -> list[Any]:
        return respond(requests, self.component)
