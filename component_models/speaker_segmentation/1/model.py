from typing import Any

from conch.component.parameters import NiceConfig
from conch.families.speakers.components import SegmentationComponent
from conch.triton import read_parameters, respond, settled


class TritonPythonModel:
    """Who speaks when, among the speakers of each window?"""

    def initialize(self, args: dict[str, str]) -> None:
        self.component = settled(SegmentationComponent(read_parameters(NiceConfig, args)))

    def execute(self, requests: list[Any]) -> list[Any]:
        return respond(requests, self.component)
