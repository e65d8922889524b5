from typing import Any

from conch.families.search.graphs import RecordingsConfig
from conch.families.wenet.networks import WenetEncoder
from conch.triton import read_parameters, respond, settled


class TritonPythonModel:
    """A segment's waveform to the frames of a WeNet model."""

    def initialize(self, args: dict[str, str]) -> None:
        self.component = settled(WenetEncoder(read_parameters(RecordingsConfig, args)))

    def execute(self, requests: list[Any]) -> list[Any]:
        return respond(requests, self.component)
