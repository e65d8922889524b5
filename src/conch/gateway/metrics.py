"""The gateway's metrics, in Prometheus' format."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.registry import Collector

_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)


class GatewayMetrics:
    """The counters of one gateway; labels have few values, and never a secret."""

    def __init__(self) -> None:
        """Begin at 0."""
        self._registry = registry = CollectorRegistry()
        self.requests = Counter(
            "conch_gateway_requests",
            "Requests that were answered, live sessions left out",
            ("route", "status", "key"),
            registry=registry,
        )
        self.request_seconds = Histogram(
            "conch_gateway_request_seconds",
            "Seconds from a request's head to the end of its answer, live sessions left out",
            ("route",),
            buckets=_SECONDS,
            registry=registry,
        )
        self.cancelled = Counter(
            "conch_gateway_cancelled",
            "Requests whose client went away before the answer",
            ("route",),
            registry=registry,
        )
        self.files = Gauge(
            "conch_gateway_files", "Files that are being received or recognised", registry=registry
        )
        self.sessions = Gauge(
            "conch_gateway_sessions", "Live sessions that are open", ("route",), registry=registry
        )
        self.sessions_ended = Counter(
            "conch_gateway_sessions_ended",
            "Live sessions that have ended, by the code of their close frame",
            ("route", "key", "code"),
            registry=registry,
        )
        self.audio_seconds = Counter(
            "conch_gateway_audio_seconds",
            "Seconds of audio that were recognised",
            ("route", "key"),
            registry=registry,
        )
        self.first_text_seconds = Histogram(
            "conch_gateway_first_text_seconds",
            "Seconds from the first audio of a live session to its first text",
            ("route",),
            buckets=_SECONDS,
            registry=registry,
        )

    def show(self, others: Collector) -> None:
        """Show the metrics of somebody else beside these."""
        self._registry.register(others)

    def as_text(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self._registry)
