"""Metrics of the gateway on the models that `conch serve` has healed."""

from collections.abc import Iterable, Iterator

from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from conch.launcher import TritonServer


class HealMetrics(Collector):
    """The counters of one server, read at each scrape."""

    def __init__(self, server: TritonServer, models: Iterable[str]) -> None:
        """Count `models` from 0: Prometheus sees no increase in a counter's first value."""
        self._server, self._models = server, tuple(models)

    def collect(self) -> Iterator[CounterMetricFamily]:
        heals = CounterMetricFamily(
            "conch_heals", "Models loaded again because a process died or froze", labels=["model"]
        )
        counts = {**dict.fromkeys(self._models, 0), **self._server.heals}
        for model, count in sorted(counts.items()):
            heals.add_metric([model], count)
        yield heals
        yield CounterMetricFamily(
            "conch_server_restarts",
            "Times that tritonserver was started again",
            value=self._server.restarts,
        )
