"""The key and the headers of every request, over every protocol."""

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any

import grpc  # type: ignore[import-untyped]
import numpy as np
import pytest
from plain_gateway import PlainGateway
from plain_grpc import grpc_server

from conch.client import AsyncClient, Client
from conch.client.endpoint import KEY_VARIABLE, Address, Endpoint, request_headers
from conch.wire.errors import ConchError, ServerError

KEY = "s3cret-key"
SENT = {"X-Team": "newsroom"}
SPEECH = np.zeros(160, np.float32)


class Metadata(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Keeps the metadata of every call and serves none."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, str]]] = []

    def service(self, details: Any) -> None:
        self.calls.append((details.method, dict(details.invocation_metadata)))


@pytest.fixture
def metadata() -> Iterator[tuple[str, Metadata]]:
    handler = Metadata()
    with grpc_server(handler) as url:
        yield url, handler


def ask(url: str) -> None:
    """Send what a client can send, whatever the answers are."""
    with Client(url, api_key=KEY, headers=SENT) as client:
        for send in (
            lambda: client.transcribe(SPEECH),
            lambda: list(client.stream(SPEECH)),
            lambda: client.live().finish(SPEECH),
            client.is_ready,
        ):
            with contextlib.suppress(ConchError):
                send()


async def ask_async(url: str) -> None:
    async with AsyncClient(url, api_key=KEY, headers=SENT) as client:

        async def parts() -> None:
            async for _ in client.stream(SPEECH):
                pass

        live = client.live().finish(SPEECH)
        for coming in (client.transcribe(SPEECH), parts(), live, client.is_ready()):
            with contextlib.suppress(ConchError):
                await coming


def check(asked: list[tuple[str, dict[str, str]]], least: int) -> None:
    assert len(asked) >= least
    for what, headers in asked:
        assert headers["authorization"] == f"Bearer {KEY}", what
        assert headers["x-team"] == "newsroom", what


@pytest.mark.parametrize("has_name", [True, False], ids=["gateway", "triton"])
def test_every_request_over_http_has_them(has_name: bool) -> None:
    for asks in (ask, lambda url: asyncio.run(ask_async(url))):
        with PlainGateway(has_name=has_name) as server:
            asks(server.url)
        # A Triton over HTTP has no streams.
        check(server.asked, 5 if has_name else 4)


def test_every_call_over_grpc_has_them(metadata: tuple[str, Metadata]) -> None:
    url, handler = metadata
    ask(url)
    asyncio.run(ask_async(url))
    check(handler.calls, 8)


def test_the_environment_has_a_key_for_who_gives_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    assert request_headers() == {}
    monkeypatch.setenv(KEY_VARIABLE, f" {KEY}\n")
    assert request_headers() == {"authorization": f"Bearer {KEY}"}
    assert request_headers("other") == {"authorization": "Bearer other"}
    assert request_headers("") == {}
    assert request_headers(None, {"Authorization": "Basic x"}) == {"authorization": "Basic x"}


@pytest.mark.parametrize(
    ("name", "value"),
    [("X Team", KEY), ("", KEY), ("X-Team", ""), ("X-Team", f"{KEY}\r\nX-Other: 1"), ("X", "é")],
)
def test_a_header_that_cannot_be_sent(name: str, value: str) -> None:
    with pytest.raises(ServerError, match=f"header '{name}'") as caught:
        Client(headers={name: value})
    assert KEY not in str(caught.value)


def test_no_error_and_no_repr_tells_a_key() -> None:
    endpoint = Endpoint.parse("http://127.0.0.1:1", KEY, SENT)
    with pytest.raises(ServerError) as broken:
        Client(api_key=f"{KEY}\x00")
    with Client("http://127.0.0.1:1", api_key=KEY) as client, pytest.raises(ServerError) as lost:
        client.transcribe(SPEECH)
    shown = f"{endpoint!r} {endpoint} {client!r} {broken.value!r} {lost.value!r}"
    assert KEY not in shown
    assert "newsroom" not in shown


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("127.0.0.1:8000", "http://127.0.0.1:8000"),
        ("localhost", "http://localhost:8000"),
        ("http://asr.example/base/", "http://asr.example:8000/base"),
        ("https://asr.example", "https://asr.example:443"),
        ("grpc://127.0.0.1", "grpc://127.0.0.1:8001"),
        ("grpcs://asr.example:443", "grpcs://asr.example:443"),
        ("http://[::1]:9000", "http://[::1]:9000"),
    ],
)
def test_urls(url: str, expected: str) -> None:
    assert str(Address.parse(url)) == expected


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("ftp://host", "the scheme is one of http://, https://, grpc://, grpcs://"),
        ("http://", "no host"),
        ("host:port", "port"),
        ("host:99999", "[Pp]ort"),
        ("::1:8000", r"; an IPv6 address has brackets, as \[::1\]:8000"),
        ("http://[::1", "Invalid IPv6 URL; an IPv6 address has brackets"),
        ("grpc://host/path", "gRPC takes no path"),
    ],
)
def test_wrong_urls(url: str, message: str) -> None:
    with pytest.raises(ServerError, match=message):
        Address.parse(url)
