"""Three servers behind a real HAProxy: streams stay, and a server that goes takes only its own."""

import asyncio
import os
import re
import signal
import subprocess
import urllib.request
import uuid
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import numpy as np
import psutil
import pytest
from joined_text import assert_joined
from metrics import metrics_of
from recordings import Recording
from router import RunningRouter, free_ports, routing
from servers import ANY_TRITON_PORTS, SERVE, children_of
from waiting import wait_until

from conch.client import AsyncClient, AsyncLiveStream, tensors
from conch.client.asynchronous import Transport, connect
from conch.client.endpoint import Endpoint
from conch.deploy.haproxy import BackendServer
from conch.wire.entry_points import ChunkPosition
from conch.wire.errors import ConchError, OverloadedError, ServerError, SessionError
from conch.wire.result import Transcript

pytestmark = [pytest.mark.server, pytest.mark.nightly]

RATE = 16_000
STEP = RATE * 64 // 100
START_S = 240.0
"""Seconds for a server to start on a machine that does other work."""
KINDS = ("grpc", "http", "websocket")


class Own:
    """A `conch serve` of these tests, with the models of live streams alone."""

    def __init__(self, folder: Path) -> None:
        self._log = folder / f"{uuid.uuid4().hex}.log"
        arguments = [*ANY_TRITON_PORTS, "--models", "streaming", "--gateway", "127.0.0.1:0"]
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [*SERVE, *arguments], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        try:
            wait_until(lambda: self._has_ended() or "Ctrl-C" in self._log.read_text(), START_S)
            assert self.is_running, self._log.read_text()
            ports = {name: self._port(name) for name in ("HTTP", "gRPC", "gateway", "metrics")}
        except BaseException:
            self.end()
            raise
        self.server = BackendServer("127.0.0.1", ports["HTTP"], ports["gRPC"], ports["gateway"])
        self._metrics = ports["metrics"]

    @property
    def is_running(self) -> bool:
        return not self._has_ended()

    def count(self, metric: str) -> float:
        """Return a metric of Conch's, 0 if there is none yet."""
        return metrics_of(f"http://127.0.0.1:{self._metrics}/metrics").get(metric, 0.0)

    def open_streams(self) -> int:
        return round(self.count("conch_open_streams"))

    def kill(self) -> None:
        """Kill it with its Triton, as a machine that is gone; what watches it cleans up."""
        group = children_of(self.process.pid)
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()
        wait_until(lambda: not any(map(psutil.pid_exists, group)))

    def end(self) -> None:
        if self.is_running:
            self.process.terminate()
            self.process.wait(timeout=90)

    def _port(self, name: str) -> int:
        found = re.search(rf"^  {name} +\w+://127\.0\.0\.1:(\d+)", self._log.read_text(), re.M)
        assert found
        return int(found[1])

    def _has_ended(self) -> bool:
        return self.process.poll() is not None


class Stream:
    """A live stream that is told of every loss, as a client is that does not go on by itself."""

    def __init__(self, transport: Transport, kind: str, samples: np.ndarray) -> None:
        self.kind, self.samples = kind, samples
        self._transport, self._id, self._sent = transport, uuid.uuid4().hex, 0

    async def send(self, samples: int) -> Transcript:
        """Send the next samples; those behind the last one end the stream."""
        chunk = self.samples[self._sent : self._sent + samples]
        starts, self._sent = self._sent == 0, self._sent + samples
        request = tensors.Request(
            model="speech",
            inputs=tensors.chunk_tensors(chunk, RATE),
            parameters={"session": "test", **({"mode": "streaming"} if starts else {})},
            timeout_s=300,
            position=ChunkPosition(self._id, starts, self._sent >= len(self.samples)),
        )
        return (await self._transport.infer(request))[0]

    async def finish(self) -> str:
        while True:
            answer = await self.send(STEP)
            if answer.is_final:
                return answer.text


@asynccontextmanager
async def transports(*urls: str) -> AsyncIterator[list[Transport]]:
    """Yield a client of each URL; each has one connection for gRPC, a pool for HTTP."""
    found = [
        await connect(Endpoint.parse(url, api_key=""), connections=32, timeout_s=10) for url in urls
    ]
    try:
        yield found
    finally:
        for transport in found:
            await transport.close()


@asynccontextmanager
async def streams(
    router: RunningRouter, of_a_kind: int, texts: dict[str, np.ndarray]
) -> AsyncIterator[list[Stream]]:
    """Yield streams over gRPC, HTTP and WebSocket that have begun, with the waveforms in turn."""
    waveforms = list(texts.values())
    urls = router.grpc_url, router.http_url, router.gateway_url
    async with transports(*urls) as found:
        opened = [
            Stream(transport, kind, waveforms[number % len(waveforms)])
            for kind, transport in zip(KINDS, found, strict=True)
            for number in range(of_a_kind)
        ]
        await asyncio.gather(*(stream.send(STEP) for stream in opened))
        yield opened


@asynccontextmanager
async def resuming(
    router: RunningRouter, of_a_kind: int, waveforms: Sequence[np.ndarray]
) -> AsyncIterator[list[tuple[AsyncLiveStream, np.ndarray]]]:
    """Yield streams as `streams` does, of the client that goes on by itself, and their samples."""
    async with AsyncExitStack() as stack:
        found = []
        for url in (router.grpc_url, router.http_url, router.gateway_url):
            client = await stack.enter_async_context(AsyncClient(url))
            for waveform in waveforms[:of_a_kind]:
                stream = await stack.enter_async_context(client.live(mode="streaming"))
                await stream.send(waveform[:STEP])
                found.append((stream, waveform))
        yield found


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Own]]:
    folder = tmp_path_factory.mktemp("servers")
    found: list[Own] = []
    try:
        for _ in range(3):
            found.append(Own(folder))
        yield found
    finally:
        for server in found:
            server.end()


@pytest.fixture(scope="module")
def texts(own: list[Own], recordings: list[Recording]) -> dict[str, np.ndarray]:
    """Return waveforms of three seconds by their texts, as one server alone tells them."""

    async def told() -> dict[str, np.ndarray]:
        url = f"grpc://127.0.0.1:{own[0].server.grpc_port}"
        async with transports(url) as (transport,):
            waveforms = [item.waveform()[: 3 * RATE] for item in recordings[:6]]
            return {await Stream(transport, "grpc", one).finish(): one for one in waveforms}

    found = asyncio.run(told())
    assert len(found) == 6
    assert all(found)
    return found


def running(own: Sequence[Own]) -> list[Own]:
    return [server for server in own if server.is_running]


def opened(own: Sequence[Own]) -> list[int]:
    return [server.open_streams() for server in own]


def text_of(texts: dict[str, np.ndarray], stream: Stream) -> str:
    return next(text for text, waveform in texts.items() if waveform is stream.samples)


async def finish_all(found: Sequence[Stream], texts: dict[str, np.ndarray]) -> None:
    """End streams, each with the text of its own waveform."""
    told = await asyncio.gather(*(stream.finish() for stream in found))
    assert told == [text_of(texts, stream) for stream in found]


def wait_until_open(own: Sequence[Own], total: int) -> list[int]:
    """Return how many streams each server has, once they are as many as they should be."""
    # What a test that failed has left expires after a minute.
    wait_until(lambda: sum(opened(own)) == total, 90.0)
    return opened(own)


def test_sixty_streams_spread_and_none_crosses(own, texts, tmp_path) -> None:
    servers = running(own)
    wait_until_open(servers, 0)

    async def talk(router: RunningRouter) -> None:
        async with streams(router, 20, texts) as found:
            counts = wait_until_open(servers, 60)
            assert min(counts) >= 60 // len(servers) // 3
            await finish_all(found, texts)

    with routing(tmp_path, [one.server for one in servers]) as router:
        asyncio.run(talk(router))
        with urllib.request.urlopen(f"{router.figures_url}/metrics", timeout=10) as answer:
            lines = answer.read().decode()
    for backend in ("grpc_live", "http_live", "gateway"):
        labels = rf'proxy="{backend}",server=.*,code="(.)xx"'
        counted = re.findall(rf"haproxy_server_http_responses_total{{{labels}}} (\d+)", lines)
        assert len(counted) == 5 * len(servers)
        assert not [count for code, count in counted if code in "45" and int(count)]
    wait_until_open(servers, 0)
    assert not any(one.count("conch_chunks_total{mode=none,outcome=invalid}") for one in servers)


def test_a_server_that_is_added_takes_new_streams_only(own, texts, tmp_path) -> None:
    *before, added = running(own)
    wait_until_open(running(own), 0)

    async def talk(router: RunningRouter) -> None:
        async with streams(router, 8, texts) as old:
            counts = wait_until_open(before, 24)
            await asyncio.to_thread(router.reload, [one.server for one in running(own)])
            # Connections of the old process come over one after the other.
            await asyncio.gather(*(stream.send(STEP) for stream in old))
            async with streams(router, 8, texts) as new:
                wait_until_open(running(own), 48)
                assert added.open_streams() > 0
                new_here = added.open_streams()
                await finish_all(old, texts)
                assert wait_until_open(running(own), 24)[-1] == new_here
                await finish_all(new, texts)
            assert sum(counts) == 24

    with routing(tmp_path, [one.server for one in before]) as router:
        asyncio.run(talk(router))


def test_a_server_that_is_drained_and_stopped_loses_nothing(own, texts, tmp_path) -> None:
    servers = running(own)
    drained = servers[0]
    wait_until_open(servers, 0)

    async def talk(router: RunningRouter) -> None:
        async with streams(router, 8, texts) as old:
            wait_until_open(servers, 24)
            before = drained.open_streams()
            assert before > 0
            router.drain(drained.server)
            async with streams(router, 8, texts) as new:
                wait_until_open(servers, 48)
                assert drained.open_streams() == before
                await finish_all(new, texts)
            # A WebSocket may stay open: it gets the text so far. The others need their last chunk.
            sockets = [stream for stream in old if stream.kind == "websocket"]
            await finish_all([stream for stream in old if stream not in sockets], texts)
            counts = wait_until_open(servers, len(sockets))
            assert counts[0] > 0
            drained.process.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(drained.process.wait, 90) == 0
            last = await asyncio.gather(*(stream.send(STEP) for stream in sockets))
            ended = [
                stream for stream, answer in zip(sockets, last, strict=True) if answer.is_final
            ]
            assert len(ended) == counts[0]
            await finish_all([stream for stream in sockets if stream not in ended], texts)

    with routing(tmp_path, [one.server for one in servers]) as router:
        asyncio.run(talk(router))
        asyncio.run(all_served(router, texts))


def test_a_server_that_is_killed_costs_its_own_streams_only(own, texts, tmp_path) -> None:
    servers = running(own)
    killed, *others = servers
    wait_until_open(servers, 0)

    async def talk(router: RunningRouter) -> None:
        whole = list(texts)
        async with (
            streams(router, 8, texts) as found,
            resuming(router, 6, list(texts.values())) as going_on,
        ):
            counts = wait_until_open(servers, 24 + 18)
            assert 0 < counts[0] < 24 + 18
            killed.kill()
            answers = await asyncio.gather(
                *(stream.send(STEP) for stream in found), return_exceptions=True
            )
            lost = [
                stream
                for stream, answer in zip(found, answers, strict=True)
                if isinstance(answer, BaseException)
            ]
            for number, (resumed, samples) in enumerate(going_on):
                await resumed.send(samples[STEP:])
                assert_joined((await resumed.finish()).text, whole[number % len(whole)])
            num_resumed = sum(bool(resumed.resumptions) for resumed, _ in going_on)
            assert len(lost) + num_resumed == counts[0]
            for stream in lost:
                await says_to_start_again(stream)
            await finish_all([stream for stream in found if stream not in lost], texts)
            # All of them may begin anew, even before HAProxy knows that the server is gone.
            again = [Stream(stream._transport, stream.kind, stream.samples) for stream in lost]
            await finish_all(again, texts)

    with routing(tmp_path, [one.server for one in servers]) as router:
        asyncio.run(talk(router))
        wait_until(lambda: not router.is_up(killed.server))
        asyncio.run(all_served(router, texts))
    wait_until_open(others, 0)


async def says_to_start_again(stream: Stream) -> None:
    """Check what a stream is told whose server is gone."""
    with pytest.raises(ConchError) as told:
        await stream.send(STEP)
    if stream.kind == "websocket":
        assert isinstance(told.value, ServerError | SessionError)
    else:
        assert isinstance(told.value, SessionError)
        assert "send START" in str(told.value)


async def all_served(router: RunningRouter, texts: dict[str, np.ndarray]) -> None:
    """Check that new streams are served, whoever is gone."""
    async with streams(router, 2, texts) as found:
        await finish_all(found, texts)


def test_without_any_server_a_client_is_told_to_come_later(tmp_path) -> None:
    ports = free_ports(3)

    async def ask(router: RunningRouter, server: BackendServer) -> None:
        wait_until(lambda: not router.is_up(server))
        samples = np.zeros(STEP, np.float32)
        async with transports(router.grpc_url, router.http_url) as found:
            for kind, transport in zip(KINDS, found, strict=False):
                with pytest.raises(OverloadedError, match="no speech server is ready") as told:
                    await Stream(transport, kind, samples).send(STEP)
                assert told.value.retry_after_s == 5

    server = BackendServer("127.0.0.1", *ports)
    with routing(tmp_path, [server]) as router:
        asyncio.run(ask(router, server))
