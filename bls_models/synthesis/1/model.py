from typing import Any

from conch.bls.config import own_components
from conch.synthesis import Synthesis, SynthesisConfig
from conch.triton import read_parameters
from conch.triton.entry_point import EntryPoint


class TritonPythonModel:
    """The public entry point of speech: text in, audio out."""

    def initialize(self, args: dict[str, str]) -> None:
        config = read_parameters(SynthesisConfig, args)
        self.entry_point = EntryPoint(Synthesis, config, own_components(), args)

    def execute(self, requests: list[Any]) -> None:
        for request in requests:
            self.entry_point.start(request)

    def finalize(self) -> None:
        self.entry_point.close()
