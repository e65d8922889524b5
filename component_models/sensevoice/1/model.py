from typing import Any

from conch.families.funasr.sense_voice import SenseVoiceComponent
from conch.families.search.graphs import FolderConfig
from conch.triton import read_parameters, respond, settled


class TritonPythonModel:
    """A segment's waveform to the text of a SenseVoice."""

    def initialize(self, args: dict[str, str]) -> None:
        self.component = settled(SenseVoiceComponent(read_parameters(FolderConfig, args)))

    def execute(self, requests: list[Any]) -> list[Any]:
        return respond(requests, self.component)
