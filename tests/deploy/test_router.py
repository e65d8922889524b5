"""A real HAProxy in front of servers that only say who they are."""

import hashlib
import http.client
import json
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, closing
from pathlib import Path

import grpc  # type: ignore[import-untyped]
import pytest
from http_server import Asked, http_server
from router import RunningRouter, free_ports, routing

from conch.deploy.haproxy import BackendServer

pytestmark = pytest.mark.nightly

INFER = "/v2/models/speech/infer"


def answering(name: str) -> AbstractContextManager[int]:
    """Run a server whose answers tell its name, and what path was asked for."""

    def answer(asked: Asked) -> tuple[int, bytes]:
        said: dict[str, object] = {"by": name, "path": asked.path}
        if asked.method == "POST":
            secret = hashlib.sha256(asked.path.encode() + name.encode()).hexdigest()
            beta = "transcription_sessions" in asked.path
            said |= {"client_secret": {"value": secret}} if beta else {"value": secret}
        return 200, json.dumps(said).encode()

    return http_server(answer, protocol="HTTP/1.1")


@pytest.fixture
def router(tmp_path: Path) -> Iterator[RunningRouter]:
    with ExitStack() as stack:
        servers = []
        for name in "abc":
            http_port = stack.enter_context(answering(name))
            gateway_port = stack.enter_context(answering(name))
            servers.append(BackendServer("127.0.0.1", http_port, free_ports(1)[0], gateway_port))
        yield stack.enter_context(routing(tmp_path, servers))


def ask(
    url: str, method: str, path: str, headers: dict[str, str] | None = None, body: bytes = b""
) -> tuple[int, bytes]:
    with closing(http.client.HTTPConnection(url.removeprefix("http://"), timeout=20)) as connection:
        connection.request(method, path, body, headers or {})
        answer = connection.getresponse()
        return answer.status, answer.read()


def who(url: str, method: str, path: str, headers: dict[str, str] | None = None) -> str:
    status, body = ask(url, method, path, headers, b"{}")
    assert status == 200, body
    return str(json.loads(body)["by"])


@pytest.mark.parametrize("path", ["client_secrets", "transcription_sessions"])
def test_a_secret_opens_sessions_at_the_gateway_that_made_it(router, path) -> None:
    url = router.gateway_url
    seen = set()
    for _ in range(6):
        _, body = ask(url, "POST", f"/v1/realtime/{path}", body=b"{}")
        made = json.loads(body)
        secret = made["value"] if path == "client_secrets" else made["client_secret"]["value"]
        seen.add(made["by"])
        offered = f"realtime, openai-insecure-api-key.{secret}, openai-beta.realtime-v1"
        for headers in (
            {"Authorization": f"Bearer {secret}"},
            {"Sec-WebSocket-Protocol": offered},
            {"Sec-WebSocket-Protocol": f"conch, openai-insecure-api-key.{secret}"},
        ):
            assert {who(url, "GET", "/v1/realtime", headers) for _ in range(4)} == {made["by"]}
    assert len(seen) > 1
    shown = router.command("show table gateway")
    assert secret not in shown
    assert hashlib.sha256(secret.encode()).hexdigest().upper() in shown


def test_keys_and_requests_without_one_go_round(router) -> None:
    for headers in ({}, {"Authorization": "Bearer sk-1"}, {"X-API-Key": "sk-1"}):
        assert {who(router.gateway_url, "GET", "/v1/models", headers) for _ in range(9)} == set(
            "abc"
        )
    assert {who(router.http_url, "POST", INFER) for _ in range(9)} == set("abc")


def test_a_stream_has_one_server_over_any_connection(router) -> None:
    where = {}
    for number in range(30):
        stream = {"conch-stream": f"stream {number}"}
        (where[number],) = {who(router.http_url, "POST", INFER, stream) for _ in range(4)}
    assert set(where.values()) == set("abc")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v2/health/ready", 200),
        ("GET", "/v2", 200),
        ("GET", "/v2/models/speech/ready", 200),
        ("GET", "/v2/models/speech/versions/1/config", 200),
        ("POST", "/v2/models/speech_stream/generate_stream", 200),
        ("POST", "/v2/repository/index", 403),
        ("POST", "/v2/repository/models/speech/load", 403),
        ("GET", "/v2/systemsharedmemory/status", 403),
        ("POST", "/v2/models/speech/trace/setting", 403),
        ("GET", "/v2/logging", 403),
        ("GET", "/v2/models/../repository/index", 403),
        ("GET", "/metrics", 403),
        ("GET", "/health/live", 404),
    ],
)
def test_only_what_recognition_needs_passes_to_triton(router, method, path, status) -> None:
    assert ask(router.http_url, method, path)[0] == status


def test_bodies_have_limits(router) -> None:
    for headers, status in (
        ({"Content-Length": "200000000", "Inference-Header-Content-Length": "10"}, None),
        ({"Content-Length": "300000000", "Inference-Header-Content-Length": "10"}, 413),
        ({"Content-Length": "101000000"}, 413),
        ({"Content-Length": "150", "Inference-Header-Content-Length": "101000000"}, 413),
        ({"Transfer-Encoding": "chunked"}, 400),
    ):
        with closing(
            http.client.HTTPConnection(router.http_url.removeprefix("http://"), timeout=5)
        ) as connection:
            connection.putrequest("POST", INFER)
            for name, value in headers.items():
                connection.putheader(name, value)
            connection.endheaders()
            if status is None:
                with pytest.raises(TimeoutError):  # it waits for the body
                    connection.getresponse()
            else:
                assert connection.getresponse().status == status


@pytest.mark.parametrize("path", ["/metrics", "/%6detrics", "/%6Detric%73?a=1"])
def test_nobody_outside_reads_the_metrics_however_the_path_is_written(router, path) -> None:
    assert ask(router.gateway_url, "GET", path)[0] == 404


def test_grpc_that_loads_models_is_refused(router) -> None:
    target = router.grpc_url.removeprefix("grpc://")
    with grpc.insecure_channel(target) as channel:
        call = channel.unary_unary("/inference.GRPCInferenceService/RepositoryModelLoad")
        with pytest.raises(grpc.RpcError) as said:
            call(b"", timeout=20)
    assert said.value.code() == grpc.StatusCode.PERMISSION_DENIED
