"""Streams that never reach a server; the others are in tests/integration/test_stream.py."""

import gc
import threading
from typing import Any

import pytest
from waiting import wait_until

from conch.client import AsyncClient, Client
from conch.wire.errors import AudioError, OptionError, ServerError

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
