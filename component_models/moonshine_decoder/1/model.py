from typing import Any

from conch.families.moonshine.decoder import DecoderComponent, MoonshineDecoderConfig
from conch.triton import finish, read_parameters, settled, start


class TritonPythonModel:
    """Hidden states to n-best texts, or to the times of a text's words."""

    def initialize(self, args: dict[str, str]) -> None:
        self.component = settled(DecoderComponent(read_parameters(MoonshineDecoderConfig, args)))

    def execute(self, requests: list[Any]) -> None:
        start(requests, self.component)

    def finalize(self) -> None:
        finish(self.component)
