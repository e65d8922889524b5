"""Headers and settings of requests on the wire."""

import asyncio
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from conch.client import AsyncClient, Client, tensors
from conch.client.endpoint import Endpoint
from conch.client.triton_grpc import metadata
from conch.wire.entry_points import ChunkPosition
from conch.wire.errors import ConchError


async def test_no_answer_is_asked_for_compressed():
    heads = []

    async def hang_up(reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        if head.startswith(b"GET /health/live "):  # is it a gateway?
            writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
        else:
            heads.append(head)
        writer.close()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, AsyncClient(f"http://127.0.0.1:{port}") as client:
        with pytest.raises(ConchError):
            await client.transcribe(np.zeros(16_000, np.float32))
    assert heads
    assert all(b"accept-encoding: identity\r\n" in head.lower() for head in heads)


def test_every_chunk_names_its_stream_in_a_header_and_no_recording_does():
    chunk = tensors.Request("speech", {}, {}, 1.0, ChunkPosition("4711", True, False))
    assert chunk.headers == {"conch-stream": "4711"}
    endpoint = Endpoint.parse("grpc://127.0.0.1", api_key="", headers={"X-Team": "news"})
    assert dict(metadata(endpoint, chunk)) == {"x-team": "news", "conch-stream": "4711"}
    recording = tensors.Request("speech", {}, {}, 1.0)
    assert dict(metadata(endpoint, recording)) == dict(metadata(endpoint)) == {"x-team": "news"}


@pytest.mark.parametrize("is_async", [False, True])
def test_http_sends_the_name_of_the_stream(is_async):
    heads = []

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_error(404)

        def do_POST(self):
            heads.append(dict(self.headers.items()))
            self.send_error(400)

        def log_message(self, *_):
            pass

    def send(url):
        with Client(url) as client, client.live(sample_rate=16_000) as stream:
            stream.finish()

    async def send_async(url):
        async with AsyncClient(url) as client, client.live(sample_rate=16_000) as stream:
            await stream.finish()

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        url = f"http://127.0.0.1:{server.server_port}"
        try:
            with pytest.raises(ConchError):
                asyncio.run(send_async(url)) if is_async else send(url)
        finally:
            server.shutdown()
            serving.join()
    assert heads
    assert all(len(head["conch-stream"]) == 32 for head in heads)
