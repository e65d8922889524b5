from typing import Any

from conch.families.hibari.front_end import FrontEnd, FrontEndConfig
from conch.triton import read_parameters, respond, settled


class TritonPythonModel:
    """What sounds does a sentence have?"""

    def initialize(self, args: dict[str, str]) -> None:
        self.component = settled(FrontEnd(read_parameters(FrontEndConfig, args)))

    def execute(self, requests: list[Any]) -> list[Any]:
        return respond(requests, self.component)
