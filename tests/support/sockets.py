"""A plain client of the gateway's WebSockets whose messages are JSON."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from numpy.typing import NDArray

PATIENCE_S = 60.0
"""Seconds that a gateway may take for a message."""


class Socket:
    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.socket = socket

    async def send(self, audio: bytes | NDArray[Any]) -> None:
        await self.socket.send_bytes(audio if isinstance(audio, bytes) else audio.tobytes())

    async def say(self, kind: str, **fields: Any) -> None:
        await self.socket.send_json({"type": kind, **fields})

    async def frame(self) -> aiohttp.WSMessage:
        return await asyncio.wait_for(self.socket.receive(), PATIENCE_S)

    async def message(self, *kinds: str) -> dict[str, Any]:
        """Return the next message, of these types if any are given."""
        while True:
            frame = await self.frame()
            assert frame.type == aiohttp.WSMsgType.TEXT, frame
            message: dict[str, Any] = json.loads(frame.data)
            if not kinds or message["type"] in kinds:
                return message

    async def rest(self) -> list[dict[str, Any]]:
        """Return all messages to the end; the socket then has its code."""
        found = []
        while (frame := await self.frame()).type == aiohttp.WSMsgType.TEXT:
            found.append(json.loads(frame.data))
        return found

    @property
    def code(self) -> int | None:
        return self.socket.close_code


class SpeakingSocket(Socket):
    """A client of a route that speaks: the audio between messages is kept."""

    audio = b""

    async def frame(self) -> aiohttp.WSMessage:
        while (frame := await super().frame()).type == aiohttp.WSMsgType.BINARY:
            self.audio += frame.data
        return frame


@asynccontextmanager
async def listening_to(
    url: str, query: str = "", address: str = "/v1/conch/listen", **settings: Any
) -> AsyncIterator[Socket]:
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(f"{url}{address}?{query}", **settings) as socket,
    ):
        yield Socket(socket)


@asynccontextmanager
async def speaking(
    url: str, query: str = "", address: str = "/v1/conch/speak", **settings: Any
) -> AsyncIterator[SpeakingSocket]:
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(f"{url}{address}?{query}", **settings) as socket,
    ):
        yield SpeakingSocket(socket)
