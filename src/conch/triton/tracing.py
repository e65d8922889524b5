"""Spans of requests and of their calls of components, sent to a collector by OpenTelemetry.

Triton makes spans of the requests that it samples, and gives a model their context. It ends them as
soon as the model has taken the request, long before the answer. A call of a component that names
its request's trace after that ends the whole server (Triton 2.51). So the calls have spans of our
own, below Triton's span of the model.
"""

import json
import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from conch.wire.access import MAX_ERROR
from conch.wire.errors import TranscriptionError

logger = logging.getLogger(__name__)

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
"""Environment variables with the address of a collector (OpenTelemetry Protocol Exporter)."""
SCOPE = "conch"
RECOGNIZE = "recognize"
"""Name of the span from a request to its answer."""


class Tracer:
    """Makes spans and sends them, from a thread of its own."""

    def __init__(self, exporter: Any | None = None) -> None:
        """Send spans to the environment's collector by default; may raise an ImportError."""
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        self._provider = TracerProvider(shutdown_on_exit=False)
        exporter = OTLPSpanExporter() if exporter is None else exporter
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer(SCOPE)

    def close(self) -> None:
        self._provider.shutdown()

    def begin(
        self, trace: Mapping[str, str], attributes: Mapping[str, str]
    ) -> "RequestSpan | None":
        """Return a span that begins now; None for a request without a context of `trace_of`."""
        if not trace:
            return None
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        context = TraceContextTextMapPropagator().extract(trace)
        span = self._tracer.start_span(RECOGNIZE, context=context, attributes=dict(attributes))
        return RequestSpan(self._tracer, span)


class RequestSpan:
    """The span of a request, below which its calls of components are."""

    def __init__(self, tracer: Any, span: Any) -> None:
        self._tracer, self._span = tracer, span

    @contextmanager
    def calling(self, model: str) -> Iterator[None]:
        """Make a span for the call of a component in the block, in any thread."""
        from opentelemetry.trace import SpanKind, set_span_in_context

        with self._tracer.start_as_current_span(
            model,
            context=set_span_in_context(self._span),
            kind=SpanKind.CLIENT,
            attributes={"triton.model_name": model},
        ):
            yield

    def end(self, error: TranscriptionError | None) -> None:
        """End the span; the client gets `error`, if any, in place of an answer."""
        if error is not None:
            from opentelemetry.trace import StatusCode

            self._span.set_attribute("error.type", error.code)
            self._span.set_status(StatusCode.ERROR, str(error)[:MAX_ERROR])
        self._span.end()


def tracer_of_environment() -> Tracer | None:
    """Return a tracer if the environment names a collector, as `conch serve` sets it; else None."""
    if not any(map(os.environ.get, ENDPOINTS)):
        return None
    try:
        return Tracer()
    except ImportError as error:
        logger.warning(
            "traces have no calls of components: %s is missing, of Conch's extra 'tracing'",
            error.name,
        )
        return None


def trace_of(request: Any) -> Mapping[str, str]:
    """Return the W3C trace context of Triton's span of a request, empty if it is not sampled.

    No failure of tracing is one of the request.
    """
    try:
        trace = request.trace()
        carrier = trace.get_context() if trace else None
        return json.loads(carrier) if carrier else {}
    except Exception:
        logger.exception("the trace of a request cannot be read")
        return {}
