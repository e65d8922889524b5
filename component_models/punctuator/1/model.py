from typing import Any

from conch.families.punctuation.model import PunctuatorConfig
from conch.families.punctuation.punctuator import Punctuator
from conch.triton import read_parameters, respond, settled


class TritonPythonModel:
    """Punctuation and capitals for texts that have none."""

    def initialize(self, args: dict[str, str]) -> None:
        self.component = settled(Punctuator(read_parameters(PunctuatorConfig, args)))

    def execute(self, requests: list[Any]) -> list[Any]:
        return respond(requests, self.component)
