"""The address that a wrong one is close to."""

import asyncio

import pytest

from conch.gateway import GatewayConfig
from conch.gateway.app import make_app, meant_by
from conch.gateway.state import Gateway


async def addresses() -> list[str]:
    app = make_app(Gateway(GatewayConfig(servers=("grpc://127.0.0.1:1",))))
    result = [resource.canonical for resource in app.router.resources()]
    return [path for path in result if "{" not in path]


KNOWN = asyncio.run(addresses())


@pytest.mark.parametrize(
    ("sent", "meant"),
    [
        *((path, "/v1/audio/transcriptions") for path in ("/v1/audio/transcriptions/", "/asr")),
        *((path, "/v1/audio/transcriptions") for path in ("/audio/transcriptions", "/inference")),
        ("//v1//audio/Transcriptions", "/v1/audio/transcriptions"),
        ("/v1/v1/audio/transcriptions", "/v1/audio/transcriptions"),
        ("/v1/audio/transcription", "/v1/audio/transcriptions"),
        ("/v1/transcriptions", "/v1/audio/transcriptions"),
        ("/audio/translations/", "/v1/audio/translations"),
        *(("/models", "/v1/models"), ("/realtime/", "/v1/realtime")),
        ("/listen", "/v1/conch/listen"),
        *(("/health", "/health/ready"), ("/healthz", "/health/live"), ("/metrics/", "/metrics")),
        *(("/v2/health/ready", "/health/ready"), ("/docs/", "/docs")),
        *(("/v1", ""), ("/v1/chat/completions", ""), ("/v1/completions", ""), ("/v1/nothing", "")),
        ("/" + "x" * 5000, ""),
    ],
)
def test_a_near_miss_has_the_address_that_is_meant(sent: str, meant: str) -> None:
    assert meant_by(sent, KNOWN) == meant


def test_what_is_suggested_exists() -> None:
    for path in ("/inference", "/health", "/healthz", "/transcribe", "/asr"):
        assert meant_by(path, KNOWN) in KNOWN
