"""Components that are loaded when a request first needs them, in virtual time."""

import asyncio
from collections import Counter

import numpy as np
import pytest
from mortal_components import MortalComponents

from conch.bls.call import Deadline
from conch.bls.failover import PATIENCE_S, PAUSE_S, OnDemand
from conch.bls.runtime import Runtime
from conch.recognition import RecognitionConfig, own_components
from conch.wire.errors import ComponentError, DeadlineError, MissingModelError

pytestmark = pytest.mark.virtual_time

LOAD_S = 2.0
LATER = ("moonshine_encoder", "rescorer")
TEXTS = {"hypotheses": np.array(["a"], object)}


class Server:
    """Components of which some are loaded later; those of `broken` never are."""

    def __init__(self, *later: str) -> None:
        self.components = MortalComponents()
        self.components.missing.update(later)
        self.loads: Counter[str] = Counter()
        self.broken: set[str] = set()
        on_demand = OnDemand(later, self.components.is_loaded, self.load)
        self.runtime = Runtime(
            RecognitionConfig(), own_components(), self.components, ("vad",), on_demand=on_demand
        )

    async def load(self, model: str) -> None:
        self.loads[model] += 1
        await asyncio.sleep(LOAD_S)
        if model in self.broken:
            raise ComponentError("no weights in /srv/lm")
        self.components.load(model)

    def calls(self, deadline_ms: int = 0):
        return self.runtime.live_calls(self.components, "offline", Deadline(deadline_ms))

    async def rescored(self) -> float:
        """Call the rescorer in a request of its own; return the second of the answer."""
        await self.calls()("rescorer", TEXTS, ("lm_scores",))
        return now()


def now() -> float:
    return asyncio.get_running_loop().time()


async def test_all_requests_wait_for_one_load():
    server = Server(*LATER)
    answered = await asyncio.gather(*(server.rescored() for _ in range(8)))
    assert LOAD_S <= min(answered) <= max(answered) < LOAD_S + 0.1
    began = now()
    assert await server.rescored() < began + 0.1
    assert server.loads == {"rescorer": 1}
    assert server.runtime.failover.on_demand == [*LATER]


async def test_what_a_request_needs_is_loaded_at_the_same_time():
    server = Server(*LATER)
    await server.calls().need(("vad", *LATER, "someones_own"))
    assert now() == LOAD_S
    assert server.loads == dict.fromkeys(LATER, 1)
    assert await server.calls().is_loaded("rescorer")
    assert now() == LOAD_S


async def test_what_is_loaded_is_not_loaded_again():
    """As after `speech` was replaced; Triton would end the processes that others call."""
    server = Server("rescorer")
    server.components.load("rescorer")
    assert await server.calls().is_loaded("rescorer")
    await server.rescored()
    assert not server.loads


async def test_an_extra_is_no_reason_to_load_a_component():
    server = Server("rescorer")
    calls = server.calls()
    assert not await calls.has("rescorer")
    assert not server.loads
    await calls.need(("rescorer",))
    assert await calls.has("rescorer")


async def test_a_model_that_is_not_loaded_on_demand_is_missing():
    server = Server("moonshine_encoder")
    server.components.missing.add("rescorer")
    assert not await server.calls().is_loaded("rescorer")
    with pytest.raises(MissingModelError, match="rescorer is not loaded"):
        await server.rescored()
    assert not server.loads


async def test_a_failed_load_is_named_and_tried_again_after_a_pause():
    server = Server(*LATER)
    server.broken.add("rescorer")
    named = r"^model rescorer cannot be loaded: no weights in /srv/lm; see the server's log"
    # Both what asks and what calls.
    asks = (server.calls().is_loaded("rescorer"), server.rescored(), server.rescored())
    for error in await asyncio.gather(*asks, return_exceptions=True):
        with pytest.raises(ComponentError, match=named):
            raise error
    await server.calls().need(("moonshine_encoder",))
    await asyncio.sleep(LOAD_S + PAUSE_S - now() - 0.1)
    with pytest.raises(ComponentError, match=named):
        await server.rescored()
    assert server.loads["rescorer"] == 1
    await asyncio.sleep(0.2)
    server.broken.clear()
    await server.rescored()
    assert server.loads["rescorer"] == 2


async def test_a_request_that_is_given_up_leaves_the_load_to_the_others():
    server = Server("rescorer")

    async def limited() -> None:
        calls = server.calls(deadline_ms=500)
        async with calls.limited():
            await calls.need(["rescorer"])

    first, other = asyncio.create_task(limited()), asyncio.create_task(server.rescored())
    with pytest.raises(DeadlineError, match="500 ran out before the first call"):
        await first
    assert now() < LOAD_S
    assert LOAD_S <= await other < LOAD_S + 0.1
    assert server.loads["rescorer"] == 1


async def test_one_that_has_died_is_waited_for_and_not_loaded_here():
    server = Server("rescorer")
    await server.rescored()
    server.components.kill("rescorer")
    healing = asyncio.create_task(server.components.replace("rescorer"))
    await server.rescored()
    await healing
    assert server.loads["rescorer"] == 1
    # Unless it stays away: somebody has unloaded it.
    server.components.unload("rescorer")
    with pytest.raises(ComponentError, match=f"not back within {PATIENCE_S:g} s"):
        await server.rescored()
    await server.rescored()
    assert server.loads["rescorer"] == 2
