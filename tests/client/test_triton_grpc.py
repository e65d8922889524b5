"""Proxies of the environment: none within this machine, and one that fails is named."""

from collections.abc import Iterator
from typing import Any

import grpc  # type: ignore[import-untyped]
import pytest
from plain_grpc import grpc_server
from tritonclient.grpc import service_pb2

from conch.bench.servers import triton_version
from conch.client import Client
from conch.client.triton_grpc import PROXY_EXCEPTIONS, PROXY_VARIABLES, grpc_proxy
from conch.wire.errors import ServerError

DEAD = "http://anna:s3cret@127.0.0.1:9"
"""A proxy on a port where nothing listens."""
ANSWERS = {
    "ModelReady": service_pb2.ModelReadyResponse(ready=True),
    "ServerMetadata": service_pb2.ServerMetadataResponse(version="2.51.0"),
}


class Ready(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Says of every model that it is ready."""

    def service(self, details: Any) -> Any:
        answer = ANSWERS[details.method.rpartition("/")[2]].SerializeToString()
        return grpc.unary_unary_rpc_method_handler(lambda *_: answer)


@pytest.fixture(params=["127.0.0.1", "[::1]"])
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    with grpc_server(Ready(), request.param) as url:
        yield url


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*PROXY_VARIABLES, *PROXY_EXCEPTIONS):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("variable", PROXY_VARIABLES)
def test_no_proxy_stands_within_this_machine(
    url: str, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, DEAD)
    with Client(url) as client:
        assert client.is_ready()
    assert triton_version(url) == "2.51.0"


def test_a_proxy_that_fails_is_named_without_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", DEAD)
    with Client("grpc://asr.example:8001", timeout_s=5) as client:
        for ask in (client.is_ready, lambda: client.transcribe(b"RIFF")):
            with pytest.raises(ServerError) as caught:
                ask()
            assert (
                "grpc://asr.example:8001 (by the proxy 127.0.0.1:9 of https_proxy; "
                "no_proxy=asr.example goes without it)"
            ) in str(caught.value)
            assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"http_proxy": ""},
        {"grpc_proxy": "", "http_proxy": DEAD},
        {"http_proxy": "socks5://127.0.0.1:9"},
        {"http_proxy": DEAD, "no_proxy": "localhost,.example"},
        {"http_proxy": DEAD, "no_proxy": "other", "no_grpc_proxy": "asr.example"},
    ],
)
def test_no_proxy_is_named_where_grpc_takes_none(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert grpc_proxy("asr.example") == ""
