from typing import Any

from conch.families.turns.model import EndOfTurnComponent, TurnsConfig
from conch.triton import read_parameters, respond, settled


class TritonPythonModel:
    """Has the speaker finished?"""

    def initialize(self, args: dict[str, str]) -> None:
        self.component = settled(EndOfTurnComponent(read_parameters(TurnsConfig, args)))

    def execute(self, requests: list[Any]) -> list[Any]:
        return respond(requests, self.component)
