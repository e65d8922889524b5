"""The road of bytes from one client to a gateway, which may be cut, blocked or slow."""

import asyncio
import socket
import struct
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Literal

SECONDS_A_BYTE = 0.2
"""Between two bytes of a client that trickles."""
BUFFER_BYTES = 4096
"""Bytes that the road takes beyond those that it hands on."""
_RESET = struct.pack("ii", 1, 0)
"""Lets a socket end with a reset in place of an orderly end."""


@dataclass(frozen=True, slots=True)
class Bend:
    """What becomes of a road after some bytes."""

    way: Literal["sent", "heard"]
    """Whose bytes count: those of the client, or those of the gateway."""
    share: float
    """After which share of the bytes of an honest visit."""
    then: Literal["close", "reset", "block", "trickle"]


class Road:
    """Passes bytes on until its bend, and counts them."""

    def __init__(self, target: str, bend: Bend | None = None, after: int = 0) -> None:
        """Prepare a road to `host:port` that bends after so many bytes."""
        self.counts = Counter[str]()
        self.is_bent = False
        self.address = ""
        self._target, self._bend, self._after = target, bend, after
        self._sockets: list[asyncio.StreamWriter] = []

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, _, port = self._target.rpartition(":")
        with suppress(OSError):
            plain = socket.socket()
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
            plain.setblocking(False)
            await asyncio.get_running_loop().sock_connect(plain, (host, int(port)))
            away, to_gateway = await asyncio.open_connection(sock=plain, limit=BUFFER_BYTES)
            self._sockets += [writer, to_gateway]
            ways = self._pass(reader, to_gateway, "sent"), self._pass(away, writer, "heard")
            await asyncio.gather(*ways)

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: str
    ) -> None:
        try:
            while data := await reader.read(await self._most(way)):
                self.counts[way] += len(data)
                writer.write(data)
                await writer.drain()
        except OSError:
            pass  # one of them is gone, and so are both
        for one in self._sockets:
            one.close()

    async def _most(self, way: str) -> int:
        """Return how many bytes may pass now; do what the bend says once none may."""
        bend = self._bend
        if bend is None or bend.way != way:
            return 65_536
        if left := max(self._after - self.counts[way], 0):
            return left
        self.is_bent = True
        if bend.then == "block":
            await asyncio.Event().wait()
        if bend.then == "trickle":
            await asyncio.sleep(SECONDS_A_BYTE)
            return 1
        if bend.then == "reset":
            for one in self._sockets:
                plain = one.get_extra_info("socket")
                plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                one.transport.abort()
        raise ConnectionResetError


@asynccontextmanager
async def road(target: str, bend: Bend | None = None, after: int = 0) -> AsyncIterator[Road]:
    taken = set[asyncio.Task[None]]()
    made = Road(target, bend, after)

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        taken.add(task)
        try:
            await made.take(reader, writer)
        except asyncio.CancelledError:
            pass  # the road ends; asyncio would report it
        finally:
            for one in (writer, *made._sockets):
                one.close()

    server = await asyncio.start_server(take, "127.0.0.1", 0, limit=BUFFER_BYTES)
    made.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield made
    finally:
        server.close()
        for task in taken:
            task.cancel()
        await asyncio.gather(*taken, return_exceptions=True)
