"""Live streams that go on after a lost connection, on the real server."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pytest
from cut_proxy import CutProxy, cut_proxy
from joined_text import assert_joined
from metrics import metrics_of
from waiting import wait_until

from conch.client import AsyncClient, Client, LiveStream

pytestmark = pytest.mark.server

CHUNK = 3200
OPTIONS: Any = {"mode": "streaming"}


@pytest.fixture
def proxy(server) -> Iterator[CutProxy]:
    with cut_proxy(server.grpc_url) as running:
        yield running


def send_all(stream: LiveStream, waveform: np.ndarray, at: Mapping[int, Callable[[], None]]) -> str:
    """Send all and return the text; call what is to happen before the chunk of each number."""
    firm = ""
    texts: dict[int, str] = {}
    for number, start in enumerate(range(0, len(waveform), CHUNK)):
        if (happens := at.get(number)) is not None:
            happens()
        answer = stream.send(waveform[start : start + CHUNK])
        texts |= {item.index: item.text for item in answer.segments}
        said = [texts[index] for index in sorted(texts)]
        said += [word.text for word in answer.utterance.firm] if answer.utterance else []
        now = " ".join(filter(None, said))
        assert now.startswith(firm)
        firm = now
    return stream.finish().text


def test_a_stream_outlives_its_connection_and_its_state(server, proxy, verses):
    open_before = metrics_of(server.metrics_url)["conch_open_streams"]
    with Client(f"grpc://{server.grpc_url}") as direct, direct.live(**OPTIONS) as stream:
        whole = send_all(stream, verses, {})
    with Client(f"grpc://{proxy.address}") as client, client.live(**OPTIONS) as stream:

        def forget() -> None:
            client._portal.run(stream._stream._stream.abandon())

        joined = send_all(stream, verses, {11: proxy.cut_with_next, 22: forget})
        errors = [type(item.error).__name__ for item in stream.resumptions]
    assert errors == ["ServerLostError", "SessionError"]
    assert_joined(joined, whole)
    # The stream whose connection was lost was ended, too.
    wait_until(lambda: metrics_of(server.metrics_url)["conch_open_streams"] == open_before)


def test_with_asyncio_over_http(server, verses):
    async def text_through(address: str, cut: CutProxy | None) -> str:
        async with (
            AsyncClient(f"http://{address}") as client,
            client.live(**OPTIONS) as stream,
        ):
            for number, start in enumerate(range(0, len(verses), CHUNK)):
                if cut is not None and number == 15:
                    cut.cut_with_next()
                await stream.send(verses[start : start + CHUNK])
            return (await stream.finish()).text

    with cut_proxy(server.http_url) as proxy:
        joined = asyncio.run(text_through(proxy.address, proxy))
    assert_joined(joined, asyncio.run(text_through(server.http_url, None)))
