"""Live streams that go on after their server is killed; these servers are their own."""

import asyncio
import os
import signal
import threading
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from cut_proxy import cut_proxy
from gateways import Gateway, serving_gateway
from joined_text import assert_joined
from killing import listener_at
from live_doors import RATE, of_listen, of_realtime, of_riva, of_wyoming
from prometheus_client.parser import text_string_to_metric_families
from waiting import wait_until

from conch.client import Client, LiveStream
from conch.gateway import GatewayConfig, GatewayService
from conch.processes import model_processes

pytestmark = [pytest.mark.server, pytest.mark.nightly]

CHUNK = 3200
OPTIONS: Any = {"mode": "streaming"}
MODELS = ("--models", "two_pass")


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
def test_the_text_is_complete_after_a_kill(serving, verses, way, number):
    waveform = np.concatenate([verses, np.zeros(24_000, np.float32), verses])
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
    assert_joined(joined, whole)
    # A gateway goes on by itself, and the client only if it has given up.
    assert (way == "grpc") <= len(stream.resumptions) <= 1
    assert all(item.sent_again_s < 10 for item in stream.resumptions)


def test_the_other_server_goes_on(serving, verses):
    def address(gateway: Gateway) -> str:
        return gateway.grpc_url.removeprefix("grpc://")

    with serving_gateway(*MODELS) as other, cut_proxy(address(serving)) as proxy:

        def kill() -> None:
            proxy.target = address(other)
            kill_triton(serving)

        with Client(f"grpc://{proxy.address}") as client:
            whole = text_of(client.live(**OPTIONS), verses)
            with client.live(**OPTIONS) as stream:
                joined = text_of(stream, verses, 17, kill)
        (resumption,) = stream.resumptions
        # It does not wait for the first server.
        assert resumption.waited_s < 5
        assert_joined(joined, whole)


@pytest.fixture(scope="module")
def doors(serving: Gateway) -> Iterator[GatewayService]:
    """Yield a gateway with every door to live text."""
    anywhere = ("127.0.0.1", 0)
    config = GatewayConfig(servers=(serving.grpc_url,), port=0, riva=anywhere, wyoming=anywhere)
    with GatewayService(config) as running:
        # A server that shares two cores with others may take long to come back.
        running._gateway.servers.heal_s = 200.0
        yield running


DOORS = ((of_listen, ""), (of_realtime, ""), (of_wyoming, "wyoming"), (of_riva, "Riva"))
"""The doors, and by what name the gateway says where they are; the first two are at its own URL."""


def heard_s(doors: GatewayService) -> list[float]:
    """Return the seconds of audio that were heard at each door so far."""
    with urllib.request.urlopen(f"{doors.url}/metrics", timeout=10) as answer:
        families = text_string_to_metric_families(answer.read().decode())
    samples = [sample for family in families for sample in family.samples]
    return [item.value for item in samples if item.name == "conch_gateway_audio_seconds_total"]


def texts_at(doors: GatewayService, waveform: np.ndarray, kill: Callable[[], None]) -> list[str]:
    """Return the text at each door; kill the server when each has heard the first half."""
    samples = np.round(waveform * 32767).astype("<i2")
    audio = samples[: len(samples) // 2].tobytes(), samples[len(samples) // 2 :].tobytes()
    before, at_s = sum(heard_s(doors)), len(DOORS) * (len(audio[0]) / 2 / RATE - 1)
    goes_on = threading.Event()

    async def halves() -> AsyncIterator[bytes]:
        yield audio[0]
        await asyncio.to_thread(goes_on.wait)
        yield audio[1]

    async def main() -> list[str]:
        urls = {"": doors.url, **doors.other_urls}
        return await asyncio.gather(*(door(urls[name], halves()) for door, name in DOORS))

    with ThreadPoolExecutor(1) as pool:
        texts = pool.submit(asyncio.run, main())
        try:
            wait_until(lambda: sum(heard_s(doors)) >= before + at_s or texts.done(), 200)
            kill()
        finally:
            goes_on.set()
        return texts.result(400)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("victim", ["speech", "server"])
def test_every_door_goes_on_after_a_kill(serving, doors, verses, victim):
    def kill() -> None:
        triton = listener_at(serving.grpc_url)
        stubs = [pid for pid, model in model_processes(triton).items() if model == "speech"]
        for process in stubs if victim == "speech" else [triton]:
            os.kill(process, signal.SIGKILL)

    # Another test may have killed it.
    wait_until(lambda: doors._gateway.servers.is_ready, 200)
    waveform = np.concatenate([verses, np.zeros(24_000, np.float32), verses])
    whole = texts_at(doors, waveform, lambda: None)
    assert all(whole)
    for joined, expected in zip(texts_at(doors, waveform, kill), whole, strict=True):
        # A busy machine may skip second passes of either.
        assert_joined(joined, expected, most_changed=10)
