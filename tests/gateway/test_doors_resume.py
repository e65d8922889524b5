"""Every door to live text goes on when its speech server is lost; none is reached here."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial

import pytest
from live_doors import Audio, of_listen, of_realtime, of_riva, of_wyoming
from loop_gateway import loop_gateway, until
from plain_live import PlainLiveClient, spoken

from conch.gateway.riva import server as riva
from conch.gateway.wyoming import connection as wyoming
from conch.wire.errors import ServerLostError, SessionError

TALK = ((1, 0.6), (0, 0.1), (2, 0.6), (0, 0.5), (3, 0.6), (0, 0.1), (4, 0.6))
LOST = ServerLostError("lost the connection", had_request=False)
GONE = SessionError("the session is expired or unknown; send START")
Door = Callable[[str, Audio], Awaitable[str]]


async def text_at(door: Door, client: PlainLiveClient) -> str:
    """Return what a door hears of TALK, each piece of it a chunk of its own."""

    def has_more_than(number: int) -> bool:
        return len(client.sent) > number

    async def audio() -> AsyncIterator[bytes]:
        for number, seconds in TALK:
            sent_more = partial(has_more_than, len(client.sent))
            yield spoken(number, seconds).tobytes()
            await until(sent_more)

    async with loop_gateway(client) as running, AsyncExitStack() as stack:
        running.servers.is_ready, running.servers.away = True, []  # type: ignore[attr-defined]
        url = running.url
        for other, module in ((of_riva, riva), (of_wyoming, wyoming)):
            if door is other:
                listening = module.listening(running.gateway, "127.0.0.1", 0)
                url = f"127.0.0.1:{await stack.enter_async_context(listening)}"
        result = await asyncio.wait_for(door(url, audio()), 60)
        await stack.aclose()
        await until(lambda: not client.open)
    return " ".join(result.lower().split())


@pytest.mark.parametrize("door", [of_listen, of_realtime, of_riva, of_wyoming])
@pytest.mark.parametrize("lost_at", [2, 4, 5, 7])
async def test_a_lost_server_costs_no_word(door: Door, lost_at: int) -> None:
    error = GONE if lost_at == 5 else LOST
    client = PlainLiveClient(fail=lambda sent: error if len(client.sent) == lost_at else None)
    assert await text_at(door, client) == "one two three four"
    # The session has one stream of the gateway, and that one two of a server.
    assert len(client.streams) > len(client.options)
