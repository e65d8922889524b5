"""Traces of a real server at a collector of the test, and the lines of its access log."""

import gzip
import json
import logging
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as grpc
import tritonclient.http as http
from infer_inputs import inputs_of
from own_gateway import own_gateway
from waiting import wait_until

from conch.client import Client
from conch.launcher import ServerConfig, TritonServer
from conch.wire.access import fields_of

pytest.importorskip("opentelemetry.sdk")

pytestmark = pytest.mark.server

PARENT = "b" * 16
SILENCE = np.zeros((1, 16_000), np.int16)


class Collector(ThreadingHTTPServer):
    """Takes spans by OTLP over HTTP: JSON, which Triton sends, and protobuf, as the models do."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.spans: list[dict[str, Any]] = []
        """Spans so far, with ids in hexadecimal digits."""

    def trace(self, number: int) -> dict[str, dict[str, Any]]:
        found = [span for span in self.spans if span["traceId"] == trace_id(number)]
        return {span["name"]: span for span in found}


class _Handler(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers["Content-Encoding"] == "gzip":
            body = gzip.decompress(body)
        is_json = self.headers["Content-Type"].startswith("application/json")
        self.server.spans += spans_of_json(body) if is_json else spans_of_protobuf(body)
        self.send_response(200)
        self.send_header("Content-Type", self.headers["Content-Type"])
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *arguments: Any) -> None:
        """Write nothing."""


def spans_of_json(body: bytes) -> list[dict[str, Any]]:
    return [
        {name: span.get(name, "") for name in ("name", "traceId", "spanId", "parentSpanId")}
        for resource in json.loads(body)["resourceSpans"]
        for scope in resource["scopeSpans"]
        for span in scope["spans"]
    ]


def spans_of_protobuf(body: bytes) -> list[dict[str, Any]]:
    from opentelemetry.proto.collector.trace.v1 import trace_service_pb2

    return [
        {
            "name": span.name,
            "traceId": span.trace_id.hex(),
            "spanId": span.span_id.hex(),
            "parentSpanId": span.parent_span_id.hex(),
        }
        for resource in trace_service_pb2.ExportTraceServiceRequest.FromString(body).resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


def trace_id(number: int) -> str:
    return f"{number:032x}"


def part_of(number: int) -> dict[str, str]:
    """Return the header that makes a request a part of a trace."""
    return {"traceparent": f"00-{trace_id(number)}-{PARENT}-01"}


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with Collector() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def traced(collector: Collector) -> Iterator[TritonServer]:
    """A server that traces every request, with all that silence needs."""
    settings = (
        "mode=opentelemetry",
        f"opentelemetry,url=http://127.0.0.1:{collector.server_port}/v1/traces",
        "opentelemetry,bsp_schedule_delay=100",
        "rate=1",
        "level=TIMESTAMPS",
    )
    arguments = [f"--trace-config={setting}" for setting in settings]
    models = ("speech", "speech_stream", "vad")
    config = ServerConfig(models=models, extra_args=arguments, stop_timeout_s=8)
    with TritonServer(config) as server:
        yield server


def silence(module: Any) -> list[Any]:
    return inputs_of(module, PCM16=SILENCE)


def check_chain(spans: dict[str, dict[str, Any]], model: str) -> None:
    """Check that each span of a trace is below the one before it, and the first below PARENT."""
    above = PARENT
    for name in ("InferRequest", model, "recognize", "vad"):
        assert spans[name]["parentSpanId"] == above, name
        above = spans[name]["spanId"]


def test_a_request_is_one_trace_with_its_calls_and_one_line(traced, collector, caplog):
    caplog.set_level(logging.INFO, "conch")
    asked_id = 'a\nI1121 11:47:56.662560 39 forged.cc:1] "b"'
    over_http = http.InferenceServerClient(traced.http_url)
    over_http.infer("speech", silence(http), request_id=asked_id, headers=part_of(1))
    place = {"sequence_id": 7, "sequence_start": True, "sequence_end": True}
    over_http.infer("speech", silence(http), request_id="live", headers=part_of(3), **place)
    over_http.close()
    over_grpc = grpc.InferenceServerClient(traced.grpc_url)
    over_grpc.infer("speech", silence(grpc), headers=part_of(2))
    done = threading.Event()
    over_grpc.start_stream(lambda result, error: done.set(), headers=part_of(4))
    over_grpc.async_stream_infer("speech_stream", silence(grpc))
    assert done.wait(30)
    over_grpc.close()
    with (
        own_gateway(f"grpc://{traced.grpc_url}") as gateway,
        Client(gateway.url, headers=part_of(5)) as client,
    ):
        client.transcribe(SILENCE[0], request_id="by-gateway")

    models = ("speech", "speech", "speech", "speech_stream", "speech")
    for number, model in enumerate(models, 1):
        names = {"InferRequest", model, "recognize", "vad"}
        wait_until(
            lambda number=number, names=names: names <= collector.trace(number).keys(),
            shown=lambda number=number: f"trace {number} in {collector.spans}",
        )
        check_chain(collector.trace(number), model)

    def lines() -> list[Any]:
        return [fields for record in caplog.records if (fields := fields_of(record))]

    def by_gateway() -> dict[bool, Any]:
        found = [line for line in lines() if line["request"] == "by-gateway"]
        return {"key" in line: line for line in found}

    wait_until(lambda: len(by_gateway()) == 2)
    assert by_gateway()[True]["status"] == 200
    assert by_gateway()[False]["path"] == ["vad"]
    recording, live, other, streamed = [line for line in lines() if "model" in line][:4]
    assert recording["request"] == "a_I1121_11:47:56.662560_39_forged.cc:1___b_"
    assert (live["request"], live["chunks"], live["outcome"]) == ("live", 1, "ok")
    assert other["request"].startswith("req_")
    assert streamed["model"] == "speech_stream"
    assert all(line["path"] == ["vad"] for line in (recording, live, other, streamed))
    assert all(line["audio_s"] == 1.0 for line in (recording, live, other, streamed))
    assert not [record for record in caplog.records if record.levelno > logging.WARNING]
