"""The processes of models, for a watch of calls that looks at none."""

from collections.abc import Sequence

from conch.bls.hangs import HangWatch, ModelProcesses
from conch.bls.metrics import Metrics
from conch.recognition import own_components


class PlainProcesses(ModelProcesses):
    """One process for each model, since a time; what is killed is listed."""

    def __init__(self, began: float = 0.0) -> None:
        super().__init__(server=0)
        self.began = began
        self.starved: dict[str, float] = {}
        """Seconds of each look for which a model waits for a core."""
        self.killed: list[str] = []

    def started(self, model: str) -> Sequence[float]:
        return [self.began]

    def starved_s(self, model: str) -> float:
        return self.starved.get(model, 0.0)

    def kill(self, model: str, before: float) -> int:
        self.killed.append(model)
        return 1


def no_hangs() -> HangWatch:
    return HangWatch(PlainProcesses(), own_components(), 5.0, Metrics())
