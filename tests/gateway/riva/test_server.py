"""The port of Riva's API: whom it serves, and where it cannot listen."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import grpc  # type: ignore[import-untyped]
import pytest
from lone_gateway import address_of, lone_gateway
from riva.client.proto import health_pb2, health_pb2_grpc, riva_asr_pb2, riva_tts_pb2

from conch.gateway.config import GatewayConfig, Times
from conch.gateway.state import ARRIVING, MIN_READING, Gateway
from conch.wire.errors import ConfigError, ServerError
from conch.wire.hosts import host_port

LOOPBACK = "127.0.0.1"


@contextmanager
def channel_to(**settings: Any) -> Iterator[grpc.Channel]:
    """Yield a channel to a gateway with one place for a file and one for a text."""
    with (
        lone_gateway(riva=(LOOPBACK, 0), max_files=1, **settings) as service,
        grpc.insecure_channel(host_port(*address_of(service, "Riva"))) as channel,
    ):
        yield channel


def test_it_is_not_open_without_keys():
    with pytest.raises(ConfigError, match=r"listening on 0\.0\.0\.0 without keys"):
        lone_gateway(riva=("0.0.0.0", 0))


def test_one_port_is_taken_once():
    with lone_gateway(riva=(LOOPBACK, 0)) as service:
        _, port = address_of(service, "Riva")
        with pytest.raises(ServerError, match=f"Riva's API cannot listen on {LOOPBACK}:{port}"):
            lone_gateway(riva=(LOOPBACK, port)).__enter__()


@pytest.mark.server
def test_a_watch_tells_that_the_gateway_is_ready_and_that_it_stops(grpc_url: str) -> None:
    serving, not_serving = (
        getattr(health_pb2.HealthCheckResponse, name) for name in ("SERVING", "NOT_SERVING")
    )
    with ExitStack() as stack:
        service = stack.enter_context(lone_gateway(servers=(grpc_url,), riva=(LOOPBACK, 0)))
        with grpc.insecure_channel(host_port(*address_of(service, "Riva"))) as channel:
            health = health_pb2_grpc.HealthStub(channel)
            watched = health.Watch(health_pb2.HealthCheckRequest(), timeout=60)
            assert serving in (answer.status for answer in watched)
            stack.close()
            assert [answer.status for answer in watched] == [not_serving]


def test_without_a_server_it_does_not_serve():
    with channel_to() as channel:
        answer = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
        assert answer.status == health_pb2.HealthCheckResponse.NOT_SERVING
        unknown = channel.unary_unary("/nvidia.riva.nlp.RivaLanguageUnderstanding/Analyze")
        with pytest.raises(grpc.RpcError) as raised:
            unknown(b"")
        assert raised.value.code() == grpc.StatusCode.UNIMPLEMENTED


RECOGNIZE = "/nvidia.riva.asr.RivaSpeechRecognition/Recognize"
SYNTHESIZE = "/nvidia.riva.tts.RivaSpeechSynthesis/SynthesizeOnline"


def silent(stack: ExitStack, channel: grpc.Channel, path: str) -> grpc.Future:
    """Begin a call that sends no request until the stack is closed."""
    ended = threading.Event()
    stack.callback(ended.set)

    def requests() -> Iterator[bytes]:
        ended.wait(60)
        yield from ()

    call = channel.stream_stream(path)(requests())
    # The head of the answer comes when the call has begun.
    assert call.initial_metadata()
    stack.callback(call.cancel)
    return call


def error_of(channel: grpc.Channel, path: str, request: bytes) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.RpcError) as raised:
        list(channel.unary_stream(path)(request, timeout=60))
    return raised.value.code(), raised.value.details()


def recording() -> bytes:
    config = riva_asr_pb2.RecognitionConfig(encoding="LINEAR_PCM", sample_rate_hertz=16_000)
    return riva_asr_pb2.RecognizeRequest(config=config, audio=bytes(3200)).SerializeToString()


def text() -> bytes:
    return riva_tts_pb2.SynthesizeSpeechRequest(text="Hello.").SerializeToString()


NO_SERVER = grpc.StatusCode.UNAVAILABLE, "no speech server answers; try again later"


def test_calls_that_send_nothing_keep_no_place_from_the_others() -> None:
    with channel_to() as channel, ExitStack() as stack:
        for number in range(ARRIVING - 1):
            silent(stack, channel, (RECOGNIZE, SYNTHESIZE)[number % 2])
        assert error_of(channel, RECOGNIZE, recording()) == NO_SERVER
        assert error_of(channel, SYNTHESIZE, text()) == NO_SERVER
        silent(stack, channel, RECOGNIZE)
        full = f"{ARRIVING} calls have sent no request; try again later"
        assert error_of(channel, RECOGNIZE, recording()) == (grpc.StatusCode.UNAVAILABLE, full)
        # Health has places of its own.
        check = channel.unary_unary("/grpc.health.v1.Health/Check")
        assert health_pb2.HealthCheckResponse.FromString(check(b"")).status


@pytest.mark.parametrize("path", [RECOGNIZE, SYNTHESIZE])
def test_a_call_that_sends_nothing_is_given_up(path: str) -> None:
    with channel_to(times=Times(idle_s=0.1)) as channel, ExitStack() as stack:
        with pytest.raises(grpc.RpcError) as raised:
            list(silent(stack, channel, path))
        assert raised.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
        assert raised.value.details() == "no request came within 0.2 s"


def test_so_many_requests_are_read_at_once_as_there_is_room_for() -> None:
    gateway = Gateway(GatewayConfig(max_upload_mb=1000, max_body_mb=200))
    assert gateway.reading._value == 5
    assert Gateway(GatewayConfig(max_upload_mb=1)).reading._value == MIN_READING


def test_so_many_calls_run_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("conch.gateway.riva.server.MAX_CALLS", 2)
    with channel_to() as channel, ExitStack() as stack:
        for _ in range(2):
            silent(stack, channel, RECOGNIZE)
        code, _ = error_of(channel, SYNTHESIZE, text())
        assert code == grpc.StatusCode.RESOURCE_EXHAUSTED
