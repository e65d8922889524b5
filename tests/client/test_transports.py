"""Headers and settings of requests on the wire."""

import asyncio

import numpy as np
import pytest

from conch.client import AsyncClient
from conch.wire.errors import ConchError


def test_no_answer_is_asked_for_compressed():
    heads = []

    async def hang_up(reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        if head.startswith(b"GET /health/live "):  # is it a gateway?
            writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
        else:
            heads.append(head)
        writer.close()

    async def ask():
        server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with server, AsyncClient(f"http://127.0.0.1:{port}") as client:
            with pytest.raises(ConchError):
                await client.transcribe(np.zeros(16_000, np.float32))

    asyncio.run(ask())
    assert heads
    assert all(b"accept-encoding: identity\r\n" in head.lower() for head in heads)
