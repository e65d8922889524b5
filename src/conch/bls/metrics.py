"""Count the work of the models; `conch.triton.metrics` publishes it."""

import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from conch.wire.errors import (
    ComponentError,
    DeadlineError,
    InvalidRequestError,
    OverloadedError,
    RequestCancelledError,
)

Labels = tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Metric:
    """One Prometheus metric, compared by identity, which makes look-ups fast."""

    name: str
    description: str
    labels: tuple[str, ...] = ()
    kind: Literal["counter", "gauge"] = "counter"


REQUESTS = Metric("conch_requests_total", "Recordings answered", ("mode", "outcome"))
REJECTED = Metric(
    "conch_rejected_total", "Recordings and chunks that were wrong as sent", ("code",)
)
ANSWER_SECONDS = Metric(
    "conch_answer_seconds_total", "Time from a request or chunk to its answer", ("mode",)
)
AUDIO_IN_FLIGHT = Metric(
    "conch_audio_in_flight_seconds", "Audio of the recordings in flight", kind="gauge"
)
ROOM_SECONDS = Metric("conch_room_seconds_total", "Time that recordings waited for room")
TURN_SECONDS = Metric(
    "conch_turn_seconds_total",
    "Time that calls of recordings waited for their turn",
    ("component",),
)
REFUSED = Metric("conch_refused_total", "Recordings and live streams refused for load", ("reason",))
CALLS = Metric("conch_calls_total", "Calls of components", ("mode", "component"))
CALL_SECONDS = Metric(
    "conch_call_seconds_total",
    "Time in calls of components, queues included",
    ("mode", "component"),
)
CALLS_REPEATED = Metric(
    "conch_calls_repeated_total",
    "Calls repeated because their component died or was replaced",
    ("component", "outcome"),
)
HANGS = Metric(
    "conch_component_hangs_total",
    "Times that a component did not answer and its processes were ended",
    ("component",),
)
COMPONENTS_AWAY = Metric(
    "conch_components_away",
    "Components whose calls wait because they have died, hang or are being replaced",
    kind="gauge",
)
COMPONENT_STREAMS = Metric(
    "conch_component_streams",
    "Live streams that a component keeps state of now",
    ("model_instance",),
    kind="gauge",
)

_OUTCOMES = {
    InvalidRequestError: "invalid",
    DeadlineError: "deadline",
    RequestCancelledError: "cancelled",
    OverloadedError: "overloaded",
    ComponentError: "component",
}


class Metrics:
    """Running sums by metric and labels; any thread may add to them."""

    def __init__(self) -> None:
        self._sums: defaultdict[tuple[Metric, Labels], float] = defaultdict(float)
        self._lock = threading.Lock()

    def add(self, family: Metric, value: float = 1.0, /, **labels: str) -> None:
        """Add a value, not negative, to the sum with these values of the metric's labels."""
        assert len(labels) == len(family.labels), (family.name, labels)
        key = family, tuple([labels[name] for name in family.labels])
        with self._lock:
            self._sums[key] += value

    @contextmanager
    def answering(self, family: Metric, mode: str) -> Iterator[dict[str, str]]:
        """Count and time the answer made in the block, which may change the labels yielded."""
        labels = {"mode": mode, "outcome": "ok"}
        started = time.perf_counter()
        try:
            yield labels
        except BaseException as error:
            labels["outcome"] = outcome(error)
            if isinstance(error, InvalidRequestError):
                self.add(REJECTED, code=error.code)
            raise
        finally:
            self.add(family, **labels)
            self.add(ANSWER_SECONDS, time.perf_counter() - started, mode=labels["mode"])

    def drain(self) -> Mapping[tuple[Metric, Labels], float]:
        """Return the sums since the last call, and reset them."""
        with self._lock:
            drained, self._sums = self._sums, defaultdict(float)
        return drained

    def give_back(self, sums: Mapping[tuple[Metric, Labels], float]) -> None:
        """Add sums of `drain` that could not be published back."""
        with self._lock:
            for key, value in sums.items():
                self._sums[key] += value


def outcome(error: BaseException) -> str:
    """Return the label `outcome` of a request that ends with this error."""
    if not isinstance(error, Exception):  # the task or the generator was closed
        return "cancelled"
    return next((name for base, name in _OUTCOMES.items() if isinstance(error, base)), "internal")
