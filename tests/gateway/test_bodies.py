"""Answers to clients that stop reading, over real connections without a speech server."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing

import pytest
from aiohttp import web
from loop_gateway import until

from conch.gateway import bodies
from conch.gateway.bodies import StreamedAnswer, sent
from conch.gateway.config import GatewayConfig, Times
from conch.gateway.service import HTTP_LOGGER
from conch.gateway.state import GATEWAY, REQUEST_ID, Gateway

LARGE = bytes(30_000_000)
"""More than the buffers of two kernels hold."""


async def streamed(request: web.Request) -> web.StreamResponse:
    request[REQUEST_ID] = "an id"
    answer = StreamedAnswer(request, "text/plain", {})
    await answer.prepare(request)
    for _ in range(30):
        await answer.write(LARGE[:1_000_000])
    await answer.write_eof()
    return answer


async def whole(request: web.Request) -> web.StreamResponse:
    async def handle(request: web.Request) -> web.StreamResponse:
        return web.Response(body=LARGE)

    return await sent(request, handle)


@asynccontextmanager
async def answering(
    answer: Callable[[web.Request], Awaitable[web.StreamResponse]], ended: list[str]
) -> AsyncIterator[int]:
    """Yield the port where each request is answered so; `ended` gets how each answer has ended."""

    async def handle(request: web.Request) -> web.StreamResponse:
        try:
            result = await answer(request)
        except BaseException as error:
            ended.append(str(error))
            raise
        ended.append("all was read")
        return result

    app = web.Application()
    app[GATEWAY] = Gateway(GatewayConfig(port=0, times=Times(send_s=0.2)))
    app.add_routes([web.get("/", handle)])
    runner = web.AppRunner(app, logger=HTTP_LOGGER)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


@pytest.mark.parametrize("answer", [streamed, whole])
@pytest.mark.parametrize("reads", [False, True])
async def test_a_client_that_does_not_read_is_broken_off(
    answer: Callable[[web.Request], Awaitable[web.StreamResponse]],
    reads: bool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    # A whole answer has more time, by its size.
    monkeypatch.setattr(bodies, "LEAST_BYTES_PER_S", 1e6 if reads else 1e9)
    ended: list[str] = []
    async with answering(answer, ended) as port:
        with closing(socket.create_connection(("127.0.0.1", port))) as client:
            client.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
            if reads:
                await asyncio.to_thread(read_all, client)
            await until(lambda: bool(ended))
            assert ended == ["all was read" if reads else "the client does not read"]
            if not reads:
                assert await asyncio.to_thread(read_all, client) < len(LARGE)
    assert [record for record in caplog.records if record.exc_info] == []


def read_all(client: socket.socket) -> int:
    size = 0
    while piece := client.recv(1 << 20):
        size += len(piece)
    return size
