from typing import Any

from conch.families import traits
from conch.synthesis import Fitting, FittingConfig
from conch.triton import read_parameters
from conch.triton.entry_point import EntryPoint


class TritonPythonModel:
    """The public entry point of fitting: recordings in, a voice out."""

    def initialize(self, args: dict[str, str]) -> None:
        config = read_parameters(FittingConfig, args)
        # Without entry points, whose calls wait for the requests of others.
        self.entry_point = EntryPoint(Fitting, config, traits(), args)

    def execute(self, requests: list[Any]) -> None:
        for request in requests:
            self.entry_point.start(request)

    def finalize(self) -> None:
        self.entry_point.close()
