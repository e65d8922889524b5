"""Live streams that go on after their `tritonserver` is killed; these servers are their own."""

import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from cut_proxy import cut_proxy
from gateways import Gateway, serving_gateway
from joined_text import assert_joined
from killing import listener_at

from conch.client import Client, LiveStream

pytestmark = [pytest.mark.server, pytest.mark.nightly]

CHUNK = 3200
OPTIONS: Any = {"mode": "streaming"}
MODELS = ("--models", "streaming")


@pytest.fixture(scope="module")
def serving() -> Iterator[Gateway]:
    """Yield `conch serve` with the models of live text, and its gateway."""
    with serving_gateway(*MODELS) as running:
        yield running


def kill_triton(gateway: Gateway) -> None:
    os.kill(listener_at(gateway.grpc_url), signal.SIGKILL)


def text_of(stream: LiveStream, waveform: np.ndarray, number: int = -1, kill=None) -> str:
    """Send all and return the text; kill the server while chunk `number` is under way."""
    texts: dict[int, str] = {}
    firm = ""
    for place, start in enumerate(range(0, len(waveform), CHUNK)):
        killing = threading.Thread(target=kill) if place == number else None
        if killing:
            killing.start()
        answer = stream.send(waveform[start : start + CHUNK])
        if killing:
            killing.join()
        texts |= {item.index: item.text for item in answer.segments}
        said = [texts[index] for index in sorted(texts)]
        said += [word.text for word in answer.utterance.firm] if answer.utterance else []
        now = " ".join(filter(None, said))
        assert now.startswith(firm)
        firm = now
    last = stream.finish()
    assert last.duration == pytest.approx(len(waveform) / 16_000, abs=0.01)
    return last.text


@pytest.mark.parametrize("number", [9, 24])
@pytest.mark.parametrize("way", ["grpc", "http"])
def test_the_text_is_complete_after_a_kill(serving, waveform, way, number):
    waveform = np.concatenate([waveform, np.zeros(24_000, np.float32), waveform])
    address = serving.grpc_url if way == "grpc" else serving.url
    with Client(address) as client:
        whole = text_of(client.live(**OPTIONS), waveform)
        # A server that shares two cores with others may take long to come back.
        with client.live(**OPTIONS, resume_s=200) as stream:
            joined = text_of(
                stream,
                waveform,
                number,
                lambda: os.kill(listener_at(serving.grpc_url), signal.SIGKILL),
            )
    assert len(stream.resumptions) == 1
    assert_joined(joined, whole)
    assert stream.resumptions[0].sent_again_s < 10


def test_the_other_server_goes_on(serving, waveform):
    def address(gateway: Gateway) -> str:
        return gateway.grpc_url.removeprefix("grpc://")

    with serving_gateway(*MODELS) as other, cut_proxy(address(serving)) as proxy:

        def kill() -> None:
            proxy.target = address(other)
            kill_triton(serving)

        with Client(f"grpc://{proxy.address}") as client:
            whole = text_of(client.live(**OPTIONS), waveform)
            with client.live(**OPTIONS) as stream:
                joined = text_of(stream, waveform, 17, kill)
        (resumption,) = stream.resumptions
        # It does not wait for the first server.
        assert resumption.waited_s < 5
        assert_joined(joined, whole)
