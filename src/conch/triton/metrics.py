"""Custom metrics on the server's metrics port."""

import logging
import threading
from collections.abc import Callable, Mapping, Sized
from typing import Any

import triton_python_backend_utils as pb_utils

from conch.bls.metrics import COMPONENT_STREAMS, Labels, Metric, Metrics

logger = logging.getLogger(__name__)

PERIOD_S = 1.0


class MetricsPublisher:
    """Publishes a model's metrics on the server once a second.

    Each change of a metric is a message from the model's process to the server. Sums over a second
    keep this cost off the requests.
    """

    def __init__(
        self,
        model: str,
        metrics: Metrics | None = None,
        gauges: Mapping[Metric, Callable[[], float]] | None = None,
        of: Labels = (),
    ) -> None:
        """Start the thread that publishes; no other process publishes gauges of the labels `of`."""
        self._model, self._metrics, self._gauges = model, metrics or Metrics(), dict(gauges or {})
        self._families: dict[Metric, Any] = {}
        self._published: dict[tuple[Metric, Labels], Any] = {}
        self._of = of
        self._gauged: dict[Metric, float] = {}
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="metrics", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop the thread, publish the remaining sums and set all gauges to 0."""
        self._closing.set()
        self._thread.join()
        self._gauges = dict.fromkeys(self._gauges, lambda: 0.0)
        self._try_to_publish()
        # What is left of them when the interpreter ends makes Triton's stub crash.
        self._published.clear()
        self._families.clear()

    def _run(self) -> None:
        self._try_to_publish()
        while not self._closing.wait(PERIOD_S):
            self._try_to_publish()

    def _try_to_publish(self) -> None:
        try:
            self._publish()
        except Exception:
            logger.exception("metrics could not be published")

    def _publish(self) -> None:
        sums = dict(self._metrics.drain())
        try:
            while sums:
                (family, labels), value = next(iter(sums.items()))
                self._metric(family, labels).increment(value)
                del sums[family, labels]
        finally:
            self._metrics.give_back(sums)
        for family, value_of in self._gauges.items():
            value = float(value_of())
            if value != self._gauged.get(family):
                # The first value takes the place of the last one of a process that was killed.
                self._metric(family, self._of).set(value)
                self._gauged[family] = value

    def _metric(self, family: Metric, labels: Labels) -> Any:
        key = family, labels
        if key not in self._published:
            if family not in self._families:
                kind = getattr(pb_utils.MetricFamily, family.kind.upper())
                self._families[family] = pb_utils.MetricFamily(
                    name=family.name, description=family.description, kind=kind
                )
            named = dict(zip(family.labels, labels, strict=True))
            self._published[key] = self._families[family].Metric(
                labels={"model": self._model, **named}
            )
        return self._published[key]


def publish_streams(args: Mapping[str, str], component: Sized) -> MetricsPublisher:
    """Publish the number of open streams, the length of a component, until the result is closed."""
    return MetricsPublisher(
        args["model_name"],
        gauges={COMPONENT_STREAMS: lambda: len(component)},
        of=(args["model_instance_name"],),
    )
