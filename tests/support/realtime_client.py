"""A plain client of realtime transcription sessions."""

import asyncio
import base64
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import numpy as np
from numpy.typing import NDArray

TEXT = "conversation.item.input_audio_transcription"
BUFFER = "input_audio_buffer"
PATIENCE_S = 60.0
"""Seconds that a server may take for an event."""


class RealtimeClient:
    """Sends events to a session, and keeps those that came."""

    def __init__(self, connection: aiohttp.ClientWebSocketResponse) -> None:
        self.socket = connection
        self.events: list[dict[str, Any]] = []

    async def send(self, kind: str, **fields: Any) -> None:
        await self.socket.send_str(json.dumps({"type": kind, **fields}))

    async def append(self, audio: bytes) -> None:
        await self.send(f"{BUFFER}.append", audio=base64.b64encode(audio).decode())

    async def append_samples(self, samples: NDArray[np.int16]) -> None:
        await self.append(samples.astype("<i2").tobytes())

    async def append_in_pieces(self, audio: bytes, size: int) -> None:
        for start in range(0, len(audio), size):
            await self.append(audio[start : start + size])

    async def update(self, **parts: Any) -> dict[str, Any]:
        """Change settings and return them: `include`, `conch`, and those below `audio.input`."""
        session: dict[str, Any] = {"type": "transcription", "audio": {"input": parts}}
        for name in ("include", "conch"):
            if name in parts:
                session[name] = parts.pop(name)
        await self.send("session.update", session=session)
        updated: dict[str, Any] = (await self.until("session.updated"))["session"]
        return updated

    async def commit(self) -> dict[str, Any]:
        """Commit what was sent, and return the event of its text."""
        await self.send(f"{BUFFER}.commit")
        return await self.until(f"{TEXT}.completed")

    async def next(self) -> dict[str, Any]:
        frame = await asyncio.wait_for(self.socket.receive(), PATIENCE_S)
        assert frame.type == aiohttp.WSMsgType.TEXT, frame
        self.events.append(json.loads(frame.data))
        return self.events[-1]

    async def until(self, kind: str, count: int = 1) -> dict[str, Any]:
        """Return the next event of a type, or the last one of several."""
        while True:
            event = await self.next()
            count -= event["type"] == kind
            if not count:
                return event

    async def rest(self) -> list[dict[str, Any]]:
        """Return all events to the end; the socket then has its code."""
        begin = len(self.events)
        while True:
            frame = await asyncio.wait_for(self.socket.receive(), PATIENCE_S)
            if frame.type != aiohttp.WSMsgType.TEXT:
                return self.events[begin:]
            self.events.append(json.loads(frame.data))

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["type"] == kind]

    @property
    def kinds(self) -> list[str]:
        return [event["type"] for event in self.events]

    @property
    def texts(self) -> list[str]:
        """Return the texts of the items that are completed, in the order of their audio.

        A later item may be committed or completed first: each tells the one before it.
        """
        found = {event["item_id"]: event["transcript"] for event in self.of(f"{TEXT}.completed")}
        items: list[str] = []
        for event in self.of("input_audio_buffer.committed"):
            before = event["previous_item_id"]
            items.insert(items.index(before) + 1 if before in items else 0, event["item_id"])
        return [found[item] for item in items if item in found]

    def deltas(self, item_id: str) -> str:
        found = self.of(f"{TEXT}.delta")
        return "".join(event["delta"] for event in found if event["item_id"] == item_id)


@asynccontextmanager
async def connected(
    url: str, query: str = "intent=transcription", *, unread_bytes: int = 0, **settings: Any
) -> AsyncIterator[RealtimeClient]:
    """Yield a connected client; the system keeps about `unread_bytes` for it, or what it likes."""

    def with_little_room(address: aiohttp.AddrInfoType) -> socket.socket:
        family, socket_type, protocol, _, _ = address
        made = socket.socket(family, socket_type, protocol)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, unread_bytes)
        return made

    connector = aiohttp.TCPConnector(socket_factory=with_little_room if unread_bytes else None)
    async with (
        aiohttp.ClientSession(connector=connector) as session,
        session.ws_connect(f"{url}/v1/realtime?{query}", **settings) as connection,
    ):
        yield RealtimeClient(connection)
