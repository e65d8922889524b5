"""The short form of `make chaos`: hostile requests through every door of a server, nothing broken.

Kills are left to `make chaos` itself and to the tests of healing.
"""

import asyncio
import time
from collections.abc import Iterator

import pytest
from own_gateway import own_gateway

from conch.processes import model_processes
from lab.chaos.clients import vanish
from lab.chaos.doors import DOORS, Addresses, target_at
from lab.chaos.drawn import drawn
from lab.chaos.fuzz import Sent, fuzz
from lab.chaos.honest import REQUESTS, Honest, open_streams

pytestmark = pytest.mark.server

SEED = 20
ITEMS = 25
"""Hostile items of a door."""
EXPIRY_S = 90.0
"""Seconds in which a stream that is abandoned expires."""


@pytest.fixture(scope="module")
def addresses(server) -> Iterator[Addresses]:
    """Yield the shared server, with a gateway in front of it."""
    with own_gateway(f"grpc://{server.grpc_url}") as gateway:
        yield Addresses(server.http_url, server.grpc_url, server.metrics_url, gateway.url)


async def attack(addresses: Addresses) -> tuple[list[Sent], list[str]]:
    """Send what is drawn for every door; return it with what was wrong for honest clients."""
    async with target_at(addresses) as target, Honest(addresses) as honest:
        await honest.learn(REQUESTS)
        async with honest.alongside() as heard:
            sent = [
                await fuzz(target, door, drawn(strategy, ITEMS, SEED))
                for door, strategy in DOORS.items()
            ]
        return sent, [str(item) for item in heard.wrong]


def test_hostile_requests_are_refused_and_honest_ones_hear_nothing_of_them(addresses, server):
    processes = model_processes(server.pid)
    sent, wrong = asyncio.run(attack(addresses))
    assert [fault for found in sent for fault in found.faults] == []
    assert wrong == []
    assert sum(found.count for found in sent) >= 250
    answered = sum(found.outcomes["answered"] for found in sent)
    refused = sum(found.outcomes["refused"] for found in sent)
    assert answered > 50 and refused > 50, "both kinds were sent"
    assert model_processes(server.pid) == processes, "no model was restarted"
    assert server.process.poll() is None


@pytest.mark.nightly  # streams that are abandoned expire after a minute
async def test_clients_that_vanish_leave_nothing_behind(addresses, server):
    async with target_at(addresses) as target:
        sent = await vanish(target, SEED)
        deadline = time.monotonic() + EXPIRY_S
        while (streams := await open_streams(target)) and time.monotonic() < deadline:
            await asyncio.sleep(1)
    assert sent.faults == []
    assert streams == 0
    assert server.process.poll() is None
