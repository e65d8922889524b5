"""Texts that are spoken while they are still written."""

import asyncio
from collections.abc import AsyncGenerator

from conch.gateway.errors import ApiError

MAX_WAITING = 100_000
"""Characters of a client that may wait to be spoken."""


def check_waiting(num_characters: int) -> None:
    """Raise an ApiError if more characters would wait than may."""
    if num_characters > MAX_WAITING:
        waiting = f"{num_characters} characters would wait to be spoken"
        message = f"{waiting}; at most {MAX_WAITING} may"
        raise ApiError(429, message, code="backlog_exceeded")


class TextPieces:
    """The pieces of one text, for `AsyncClient.synthesize_stream`."""

    def __init__(self) -> None:
        self._pieces: asyncio.Queue[str | None] = asyncio.Queue()
        self.num_waiting = 0
        """Characters that were added and not read yet."""

    def add(self, text: str) -> None:
        self.num_waiting += len(text)
        self._pieces.put_nowait(text)

    def end(self) -> None:
        self._pieces.put_nowait(None)

    async def each(self) -> AsyncGenerator[str, None]:
        """Yield the pieces as they come."""
        while (piece := await self._pieces.get()) is not None:
            self.num_waiting -= len(piece)
            yield piece
