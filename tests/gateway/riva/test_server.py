"""The port of Riva's API: whom it serves, and where it cannot listen."""

from contextlib import ExitStack

import grpc  # type: ignore[import-untyped]
import pytest
from riva.client.proto import health_pb2, health_pb2_grpc

from conch.gateway import GatewayConfig, GatewayService
from conch.wire.errors import ConfigError, ServerError

NOWHERE = ("grpc://127.0.0.1:1",)
LOOPBACK = "127.0.0.1"


def config(port: int = 0, host: str = LOOPBACK) -> GatewayConfig:
    return GatewayConfig(servers=NOWHERE, port=0, riva=(host, port))


def test_it_is_not_open_without_keys():
    with pytest.raises(ConfigError, match=r"listening on 0\.0\.0\.0 without keys"):
        GatewayService(config(host="0.0.0.0"))


def test_one_port_is_taken_once():
    with GatewayService(config()) as service:
        port = int(service.other_urls["Riva"].rpartition(":")[2])
        with pytest.raises(ServerError, match=f"Riva's API cannot listen on {LOOPBACK}:{port}"):
            GatewayService(config(port)).__enter__()


@pytest.mark.server
def test_a_watch_tells_that_the_gateway_is_ready_and_that_it_stops(grpc_url: str) -> None:
    serving, not_serving = (
        getattr(health_pb2.HealthCheckResponse, name) for name in ("SERVING", "NOT_SERVING")
    )
    settings = GatewayConfig(servers=(grpc_url,), port=0, riva=(LOOPBACK, 0))
    with ExitStack() as stack:
        service = stack.enter_context(GatewayService(settings))
        target = service.other_urls["Riva"].removeprefix("grpc://")
        with grpc.insecure_channel(target) as channel:
            health = health_pb2_grpc.HealthStub(channel)
            watched = health.Watch(health_pb2.HealthCheckRequest(), timeout=60)
            assert serving in (answer.status for answer in watched)
            stack.close()
            assert [answer.status for answer in watched] == [not_serving]


def test_without_a_server_it_does_not_serve():
    with GatewayService(config()) as service:
        target = service.other_urls["Riva"].removeprefix("grpc://")
        with grpc.insecure_channel(target) as channel:
            answer = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
            assert answer.status == health_pb2.HealthCheckResponse.NOT_SERVING
            unknown = channel.unary_unary("/nvidia.riva.nlp.RivaLanguageUnderstanding/Analyze")
            with pytest.raises(grpc.RpcError) as raised:
                unknown(b"")
            assert raised.value.code() == grpc.StatusCode.UNIMPLEMENTED
