from typing import Any

from conch.bls.relay import RelayConfig
from conch.triton import read_parameters
from conch.triton.relay_point import RelayPoint


class TritonPythonModel:
    """The synthesis model under the decoupled policy: one response per chunk, at once.

    The process of `synthesis` answers, so that both share limits and order.
    """

    def initialize(self, args: dict[str, str]) -> None:
        self.relay_point = RelayPoint(read_parameters(RelayConfig, args), args)

    def execute(self, requests: list[Any]) -> None:
        for request in requests:
            self.relay_point.start(request)

    def finalize(self) -> None:
        self.relay_point.close()
