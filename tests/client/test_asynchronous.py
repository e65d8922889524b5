"""Requests of both clients: their headers on the wire, and those that reach no server."""

import asyncio
import gc
import threading
from typing import Any

import numpy as np
import pytest
from aiohttp import web
from plain_gateway import PlainGateway
from waiting import wait_until

from conch.client import AsyncClient, Client, tensors
from conch.client.endpoint import Endpoint
from conch.client.triton_grpc import metadata
from conch.wire.entry_points import ChunkPosition
from conch.wire.errors import AudioError, ConchError, OptionError, ServerError, ServerLostError


async def hang_up(request: web.Request) -> web.Response:
    assert request.transport is not None
    request.transport.close()
    return web.Response()


def test_no_answer_is_asked_for_compressed():
    with PlainGateway(has_name=False) as triton, Client(triton.url) as client:
        triton.answers["/v2/models/speech/infer"] = hang_up
        with pytest.raises(ServerLostError):
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


# Port 1 of this machine is never a server.
CLOSED = "grpc://127.0.0.1:1"


async def first_of(url: str, audio: bytes | str = b"RIFF", **options: Any) -> object:
    async with AsyncClient(url) as client:
        return await anext(client.stream(audio, **options))


def test_nobody_listens() -> None:
    threads = set(threading.enumerate())

    def have_ended() -> bool:
        gc.collect()  # gRPC's own thread ends with its last object
        return set(threading.enumerate()) <= threads

    with (
        Client(CLOSED) as client,
        pytest.raises(ServerError, match=f"{CLOSED}: .*`conch serve`"),
    ):
        next(client.stream(b"RIFF"))
    wait_until(have_ended)


async def test_nobody_listens_to_coroutines() -> None:
    with pytest.raises(ServerError, match=f"{CLOSED}: .*`conch serve`"):
        await first_of(CLOSED)


async def test_options_and_files_are_checked_before_anything_is_sent() -> None:
    with Client(CLOSED) as client:
        with pytest.raises(OptionError, match="nbest"):
            next(client.stream(b"RIFF", nbest=0))
        with pytest.raises(AudioError, match="no such file"):
            next(client.stream("no-such-file.wav"))
    with pytest.raises(OptionError, match="nbest"):
        await first_of(CLOSED, nbest=0)
    with pytest.raises(AudioError, match="no such file"):
        await first_of(CLOSED, "no-such-file.wav")
