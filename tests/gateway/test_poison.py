"""Files that end servers: two proxies before a real Triton, which break off when one passes."""

import hashlib
import json
import logging
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
import requests
from cut_proxy import CutProxy, cut_proxy
from own_gateway import OwnGateway, own_gateway

from conch.client import Client
from conch.client.poison import MAX_LOSSES
from conch.client.triton_grpc import LARGE_BYTES
from conch.wire.errors import PoisonError

pytestmark = pytest.mark.server

POISON = b"this ends servers"


@pytest.fixture
def proxies(grpc_url: str) -> Iterator[list[CutProxy]]:
    with ExitStack() as stack:
        made = [stack.enter_context(cut_proxy(grpc_url.rpartition("//")[2])) for _ in range(3)]
        for proxy in made:
            proxy.poison = POISON
        yield made


@pytest.fixture
def mortal(proxies: list[CutProxy]) -> Iterator[OwnGateway]:
    """Yield a gateway whose servers are lost with every file that has POISON in it."""
    with own_gateway(*(f"grpc://{proxy.address}" for proxy in proxies)) as running:
        yield running


def post(
    gateway: OwnGateway, content: bytes, **fields: str
) -> tuple[int, requests.structures.CaseInsensitiveDict[str], str]:
    url = f"{gateway.url}/v1/audio/transcriptions"
    answer = requests.post(url, data=fields, files={"file": ("a.wav", content)}, timeout=120)
    return answer.status_code, answer.headers, answer.text


@pytest.mark.parametrize("stream", ["false", "true"])
def test_a_file_that_ends_servers_is_refused_after_two(
    mortal, proxies, speech, stream, caplog
) -> None:
    honest = speech.path.read_bytes()
    # The loss of a short one does not always speak against it: see `grpc_failure`.
    poisoned = honest + bytes(LARGE_BYTES) + POISON + stream.encode()
    caplog.set_level(logging.INFO)
    status, headers, text = post(mortal, poisoned, stream=stream)
    assert status == 422, text
    assert json.loads(text)["error"]["code"] == "file_ends_server"
    assert "grpc://" not in text
    assert headers["x-should-retry"] == "false"
    assert sum(proxy.num_cut for proxy in proxies) == MAX_LOSSES
    line = line_of(caplog, headers["x-request-id"])
    assert "key anybody" in line
    assert f"the SHA-256 {hashlib.sha256(poisoned).hexdigest()}" in line
    # Nor does another request bring it to a server, and Conch's own client says why.
    with Client(mortal.url) as client, pytest.raises(PoisonError, match="2 servers were lost"):
        client.transcribe(poisoned)
    assert sum(proxy.num_cut for proxy in proxies) == MAX_LOSSES
    status, _, text = post(mortal, honest)
    assert (status, bool(json.loads(text)["text"])) == (200, True)


def test_a_text_that_ends_servers_is_refused_and_others_are_spoken(mortal, proxies, caplog) -> None:
    def speak(text: str) -> requests.Response:
        body = {"input": text, "response_format": "pcm"}
        return requests.post(f"{mortal.url}/v1/audio/speech", json=body, timeout=120)

    caplog.set_level(logging.INFO)
    refused = [speak(POISON.decode()), speak(POISON.decode())]
    for answer in refused:
        error = answer.json()["error"]
        assert (answer.status_code, error["code"]) == (422, "file_ends_server")
        digest = hashlib.sha256(POISON).hexdigest()
        assert f"they had what has the SHA-256 {digest}, so no other gets it" in error["message"]
        assert digest in line_of(caplog, answer.headers["x-request-id"])
    assert sum(proxy.num_cut for proxy in proxies) == MAX_LOSSES
    assert len(speak("Another text.").content) > 10_000


def line_of(caplog: pytest.LogCaptureFixture, request_id: str) -> str:
    """Return the line of the access log about a request."""
    lines = (record.getMessage() for record in caplog.records)
    (line,) = (line for line in lines if request_id in line and " 422 in " in line)
    return line
