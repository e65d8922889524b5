from typing import Any

from conch.decoding.ngram.model import LanguageModelConfig
from conch.families.ngram.rescorer import Rescorer
from conch.triton import read_parameters, respond, settled


class TritonPythonModel:
    """How probable texts are as language."""

    def initialize(self, args: dict[str, str]) -> None:
        self.component = settled(Rescorer(read_parameters(LanguageModelConfig, args)))

    def execute(self, requests: list[Any]) -> list[Any]:
        return respond(requests, self.component)
