"""A TCP proxy that cuts its connections when told, and passes new ones to another server."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from anyio.from_thread import start_blocking_portal


class CutProxy:
    """A proxy that runs in an event loop of its own thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, target: str) -> None:
        self._loop, self.target = loop, target
        self.address = ""
        self._is_to_cut = False
        self.poison = b""
        """Bytes after which all connections are broken off, whoever sends them; empty for none."""
        self.num_cut = 0
        """Times that they were."""
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._server: asyncio.Server | None = None

    def cut(self) -> None:
        self._wait_for(self._cut)

    def cut_with_next(self) -> None:
        """Break all connections off once a client has sent something more."""
        self._is_to_cut = True

    def _wait_for(self, call: Callable[[], Any]) -> None:
        async def run() -> None:
            found = call()
            if asyncio.iscoroutine(found):
                await found

        asyncio.run_coroutine_threadsafe(run(), self._loop).result(10)

    def _cut(self) -> None:
        self.num_cut += 1
        for writer in self._writers:
            writer.transport.abort()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._pass, "127.0.0.1", 0)
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        self._cut()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        host, _, port = self.target.partition(":")
        mine = {writer}
        self._writers |= mine
        try:
            with contextlib.suppress(OSError):
                other_reader, other_writer = await asyncio.open_connection(host, int(port))
                mine.add(other_writer)
                self._writers.add(other_writer)
                await asyncio.gather(
                    self._copy(reader, other_writer, is_sent=True),
                    self._copy(other_reader, writer, is_sent=False),
                )
        finally:
            for one in mine:
                self._writers.discard(one)
                one.close()
                with contextlib.suppress(OSError):
                    await one.wait_closed()

    async def _copy(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_sent: bool
    ) -> None:
        try:
            while data := await reader.read(65_536):
                writer.write(data)
                await writer.drain()
                is_poison = self.poison and self.poison in data
                if is_sent and (self._is_to_cut or is_poison):
                    self._is_to_cut = False
                    self._cut()
        finally:
            # Whoever ends one direction ends both.
            writer.close()


@asynccontextmanager
async def _running(target: str) -> AsyncIterator[CutProxy]:
    proxy = CutProxy(asyncio.get_running_loop(), target)
    await proxy.start()
    try:
        yield proxy
    finally:
        await proxy.stop()


@contextmanager
def cut_proxy(target: str) -> Iterator[CutProxy]:
    """Yield a proxy in front of a server, `host:port`."""
    running = _running(target)
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(running) as proxy:
        yield proxy
