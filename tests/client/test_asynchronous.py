"""Headers and settings of requests on the wire."""

import asyncio

import numpy as np
import pytest
from plain_gateway import PlainGateway

from conch.client import AsyncClient, Client, tensors
from conch.client.endpoint import Endpoint
from conch.client.triton_grpc import metadata
from conch.wire.entry_points import ChunkPosition
from conch.wire.errors import ConchError


def test_no_answer_is_asked_for_compressed():
    with (
        PlainGateway(has_name=False) as triton,
        Client(triton.url) as client,
        pytest.raises(ConchError),
    ):
        client.transcribe(np.zeros(16_000, np.float32))
    _, *requests = triton.asked  # the first one asks whether it is a gateway
    assert requests
    assert all(headers["accept-encoding"] == "identity" for _, headers in requests)


def test_every_chunk_names_its_stream_in_a_header_and_no_recording_does():
    chunk = tensors.Request("speech", {}, {}, 1.0, ChunkPosition("4711", True, False))
    assert chunk.headers == {"conch-stream": "4711"}
    endpoint = Endpoint.parse("grpc://127.0.0.1", api_key="", headers={"X-Team": "news"})
    assert dict(metadata(endpoint, chunk)) == {"x-team": "news", "conch-stream": "4711"}
    recording = tensors.Request("speech", {}, {}, 1.0)
    assert dict(metadata(endpoint, recording)) == dict(metadata(endpoint)) == {"x-team": "news"}


@pytest.mark.parametrize("is_async", [False, True])
def test_http_sends_the_name_of_the_stream(is_async):
    def send(url):
        with Client(url) as client, client.live(sample_rate=16_000) as stream:
            stream.finish()

    async def send_async(url):
        async with AsyncClient(url) as client, client.live(sample_rate=16_000) as stream:
            await stream.finish()

    with PlainGateway(has_name=False) as triton, pytest.raises(ConchError):
        asyncio.run(send_async(triton.url)) if is_async else send(triton.url)
    names = [headers["conch-stream"] for path, headers in triton.asked if path.endswith("/infer")]
    assert names
    assert all(len(name) == 32 for name in names)
