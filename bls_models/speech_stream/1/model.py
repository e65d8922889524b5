from typing import Any

from conch.recognition import Recognition, RecognitionConfig, own_components
from conch.triton import read_parameters
from conch.triton.entry_point import EntryPoint


class TritonPythonModel:
    """The speech model under the decoupled policy: one response per segment, as it is known."""

    def initialize(self, args: dict[str, str]) -> None:
        self.entry_point = EntryPoint(
            Recognition,
            read_parameters(RecognitionConfig, args),
            own_components(),
            args["model_name"],
            takes_several=True,
        )

    def execute(self, requests: list[Any]) -> None:
        for request in requests:
            self.entry_point.start(request)

    def finalize(self) -> None:
        self.entry_point.close()
