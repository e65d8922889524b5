from typing import Any

from conch.recognition import Recognition, RecognitionConfig, own_components
from conch.triton import read_parameters
from conch.triton.entry_point import EntryPoint


class TritonPythonModel:
    """The public entry point: speech in, transcript out; each request picks its own path."""

    def initialize(self, args: dict[str, str]) -> None:
        config = read_parameters(RecognitionConfig, args)
        self.entry_point = EntryPoint(Recognition, config, own_components(), args)

    def execute(self, requests: list[Any]) -> None:
        for request in requests:
            self.entry_point.start(request)

    def finalize(self) -> None:
        self.entry_point.close()
