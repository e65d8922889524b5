from typing import Any

from conch.families.speakers.components import SegmentationComponent
from conch.families.speakers.weights import SpeakersConfig
from conch.triton import read_parameters, respond, settled


class TritonPythonModel:
    """Who speaks when, among the speakers of each window?"""

    def initialize(self, args: dict[str, str]) -> None:
        self.component = settled(SegmentationComponent(read_parameters(SpeakersConfig, args)))

    def execute(self, requests: list[Any]) -> list[Any]:
        return respond(requests, self.component)
