"""Count and time the calls of a request, by component."""

import time

from conch.bls.call import Call, Outputs, Send
from conch.bls.metrics import CALL_SECONDS, CALLS, Metrics
from conch.wire.errors import MissingModelError, RequestCancelledError
from conch.wire.result import Stage


class Stages:
    """Policy that counts the calls of one request."""

    def __init__(self, metrics: Metrics, mode: str) -> None:
        """Start without calls.

        Args:
            metrics: Sums of all requests.
            mode: Label of the path.
        """
        self._metrics, self._mode = metrics, mode
        self._started = time.perf_counter()
        self._stages: dict[str, Stage] = {}

    async def __call__(self, call: Call, proceed: Send) -> Outputs:
        """Count a call that reaches its component."""
        # Before the call: `path` has the order in which calls were made, not answered.
        self._stages.setdefault(call.model, Stage(0, 0.0))
        started = time.perf_counter()
        is_made = True
        try:
            return await proceed(call)
        except (MissingModelError, RequestCancelledError):
            is_made = False
            raise
        finally:
            if is_made:
                self._count(call.model, time.perf_counter() - started)

    @property
    def path(self) -> tuple[str, ...]:
        """Components that were called so far, in order of first use."""
        return tuple(self._made)

    def summary(self) -> dict[str, Stage]:
        """Return the calls by component so far, and `total` since the arrival of the request."""
        made = self._made
        elapsed_ms = round((time.perf_counter() - self._started) * 1000, 3)
        return {**made, "total": Stage(sum(stage.calls for stage in made.values()), elapsed_ms)}

    def adopt(self, others: "Stages") -> None:
        """Move the calls of `others` here."""
        for model, stage in others._stages.items():
            self._add(model, stage.calls, stage.ms)
        others._stages.clear()

    @property
    def _made(self) -> dict[str, Stage]:
        return {model: stage for model, stage in self._stages.items() if stage.calls}

    def _count(self, model: str, seconds: float) -> None:
        self._add(model, 1, seconds * 1000)
        self._metrics.add(CALLS, mode=self._mode, component=model)
        self._metrics.add(CALL_SECONDS, seconds, mode=self._mode, component=model)

    def _add(self, model: str, calls: int, ms: float) -> None:
        found = self._stages.get(model, Stage(0, 0.0)) + Stage(calls, ms)
        self._stages[model] = Stage(found.calls, round(found.ms, 3))
