"""Spans of requests and of their calls, on a Triton made of plain Python."""

import json
import sys
from typing import Any

import numpy as np
import pytest
from plain_streams import audio
from plain_triton import InferenceResponse, Request, TritonError

from conch.recognition import Recognition, RecognitionConfig, own_components
from conch.triton.entry_point import EntryPoint
from conch.triton.tracing import (
    ENDPOINTS,
    RECOGNIZE,
    RequestSpan,
    Tracer,
    trace_of,
    tracer_of_environment,
)
from conch.wire.errors import OptionError

sdk = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")

TRACE, PARENT = "1" * 32, "b" * 16


class Trace:
    """The trace of a request as the python backend tells it."""

    def __init__(self, context: str | None) -> None:
        self._context = context

    def get_context(self) -> str | None:
        return self._context


class TracedRequest(Request):
    def __init__(self, context: str | None = None, flags: str = "01") -> None:
        super().__init__({"WAV": audio("1")[np.newaxis]}, ["RESULT"])
        sent = {"traceparent": f"00-{TRACE}-{PARENT}-{flags}"}
        self._trace = Trace(json.dumps(sent) if context is None else context)

    def trace(self) -> Any:
        return self._trace


@pytest.fixture
def exporter():
    return sdk.InMemorySpanExporter()


@pytest.fixture
def tracer(exporter):
    tracer = Tracer(exporter)
    yield tracer
    tracer.close()


def finished(tracer: Tracer, exporter: Any) -> dict[str, Any]:
    """Return the spans so far by name."""
    tracer.close()
    return {span.name: span for span in exporter.get_finished_spans()}


def begun(tracer: Tracer, request: Request) -> RequestSpan:
    span = tracer.begin(trace_of(request), {"triton.request_id": "call-7"})
    assert span is not None
    return span


def test_calls_are_below_the_request_and_that_below_triton_s_span(tracer, exporter):
    span = begun(tracer, TracedRequest())
    with span.calling("vad"):
        pass
    span.end(None)
    spans = finished(tracer, exporter)
    assert {f"{item.context.trace_id:032x}" for item in spans.values()} == {TRACE}
    assert f"{spans[RECOGNIZE].parent.span_id:016x}" == PARENT
    assert spans["vad"].parent.span_id == spans[RECOGNIZE].context.span_id
    assert spans[RECOGNIZE].attributes == {"triton.request_id": "call-7"}
    assert spans[RECOGNIZE].start_time <= spans["vad"].start_time
    assert spans["vad"].end_time <= spans[RECOGNIZE].end_time


def test_errors_are_noted(tracer, exporter):
    span = begun(tracer, TracedRequest())
    with pytest.raises(RuntimeError), span.calling("vad"):
        raise RuntimeError("it died")
    span.end(OptionError("no such option"))
    spans = finished(tracer, exporter)
    assert not spans["vad"].status.is_ok
    assert spans[RECOGNIZE].status.description == "no such option"
    assert spans[RECOGNIZE].attributes["error.type"] == "INVALID_OPTION"


def test_a_request_without_a_trace_has_no_span(tracer, exporter):
    assert tracer.begin(trace_of(Request([], [])), {}) is None
    assert tracer.begin(trace_of(TracedRequest("")), {}) is None
    assert finished(tracer, exporter) == {}


def test_a_parent_that_is_not_sampled_has_no_spans(tracer, exporter):
    span = begun(tracer, TracedRequest(flags="00"))
    with span.calling("vad"):
        pass
    span.end(None)
    assert finished(tracer, exporter) == {}


def test_a_trace_that_cannot_be_read_is_no_failure_of_the_request(tracer, caplog):
    assert tracer.begin(trace_of(TracedRequest("{broken")), {}) is None
    assert "the trace of a request cannot be read" in caplog.text


def test_there_is_a_tracer_where_the_environment_names_a_collector(monkeypatch, caplog):
    for name in ENDPOINTS:
        monkeypatch.delenv(name, raising=False)
    assert tracer_of_environment() is None
    monkeypatch.setenv(ENDPOINTS[0], "http://127.0.0.1:1/v1/traces")
    tracer = tracer_of_environment()
    assert tracer is not None
    tracer.close()
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    assert tracer_of_environment() is None
    assert "extra 'tracing'" in caplog.text


def test_an_entry_point_traces_what_triton_samples(models, tracer, exporter, monkeypatch):
    monkeypatch.setattr("conch.triton.entry_point.tracer_of_environment", lambda: tracer)
    models["vad"] = lambda request: InferenceResponse(error=TritonError("it died"))
    entry_point = EntryPoint(
        Recognition,
        RecognitionConfig(),
        own_components(),
        {"model_name": "speech", "model_config": "{}"},
    )
    entry_point.start(request := TracedRequest())
    assert request.sender.sent.get(timeout=20).has_error()
    entry_point.close()
    spans = {span.name: span for span in exporter.get_finished_spans()}
    assert spans[RECOGNIZE].attributes == {
        "triton.model_name": "speech",
        "triton.request_id": "call-7",
        "error.type": "COMPONENT_FAILED",
    }
    assert spans["vad"].parent.span_id == spans[RECOGNIZE].context.span_id
