"""What a gateway reports of its work: metrics for Prometheus, lines of the access log, traces."""

import logging
import re
import time
from collections.abc import Mapping
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from conch.client.triton_grpc import TRACEPARENT
from conch.gateway.errors import ApiError
from conch.wire.access import MAX_ERROR, SAFE_ID, log_access, made_id

NOBODY = "none"
"""Name of a caller whose key is missing or wrong, for logs and metrics."""
_TRACEPARENT = re.compile(r"00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
"""Version 00 of the header (W3C Trace Context, 3.2)."""
_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)


class GatewayMetrics:
    """The counters of one gateway; labels have few values, and never a secret."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        counter = partial(Counter, registry=self.registry)
        gauge = partial(Gauge, registry=self.registry)
        histogram = partial(Histogram, registry=self.registry, buckets=_SECONDS)
        self.requests = counter(
            "conch_gateway_requests",
            "Requests that were answered, live sessions left out",
            ("route", "status", "key"),
        )
        self.request_seconds = histogram(
            "conch_gateway_request_seconds",
            "Seconds from a request's head to the end of its answer, live sessions left out",
            ("route",),
        )
        self.cancelled = counter(
            "conch_gateway_cancelled",
            "Requests whose client went away before the answer",
            ("route",),
        )
        self.files = gauge("conch_gateway_files", "Files that are being received or recognised")
        self.texts = gauge("conch_gateway_texts", "Texts that are being spoken")
        self.sessions = gauge("conch_gateway_sessions", "Live sessions that are open", ("route",))
        self.sessions_ended = counter(
            "conch_gateway_sessions_ended",
            "Live sessions that have ended, by the code of their close frame",
            ("route", "key", "code"),
        )
        self.audio_seconds = counter(
            "conch_gateway_audio_seconds",
            "Seconds of audio that were recognised or spoken",
            ("route", "key"),
        )
        self.first_text_seconds = histogram(
            "conch_gateway_first_text_seconds",
            "Seconds from the first audio of a live session to its first text",
            ("route",),
        )

        self.first_audio_seconds = histogram(
            "conch_gateway_first_audio_seconds",
            "Seconds from the first of a text to its first audio",
            ("route",),
        )

    def began(self, route: str, since: float) -> None:
        """Note the first audio of a text that came at a time of the monotonic clock."""
        self.first_audio_seconds.labels(route).observe(time.monotonic() - since)

    def as_text(self) -> bytes:
        return generate_latest(self.registry)


def enter_trace(headers: Mapping[str, str]) -> str:
    """Enter the trace that headers name, if any, and return their request id, or a new one."""
    traceparent = headers.get("traceparent", "")
    TRACEPARENT.set(traceparent if _TRACEPARENT.fullmatch(traceparent) else "")
    sent_id = headers.get("x-request-id", "")
    return sent_id if SAFE_ID.fullmatch(sent_id) else made_id()


def log_answer(
    request_id: str,
    method: str,
    route: str,
    status: int | str,
    key: str,
    seconds: float,
    *,
    error: ApiError | None = None,
    is_cancelled: bool = False,
    level: int = logging.INFO,
) -> None:
    fields = {
        "request": request_id,
        "method": method,
        "route": route,
        "status": status,
        "key": key,
        "ms": round(seconds * 1000, 3),
        "outcome": "cancelled" if is_cancelled else "ok",
    }
    if error is not None:
        fields |= {"outcome": error.code or "error", "error": str(error)[:MAX_ERROR]}
    log_access(fields, level)
