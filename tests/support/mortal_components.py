"""Plain components whose processes die and come back, as those of a Triton with a launcher."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Mapping
from contextlib import suppress

from plain_components import HostTensor, PlainComponents

from conch.bls.call import Call, ComponentAwayError
from conch.wire.needs import missing

FAILURE_S = 1.0
"""Seconds until Triton finds a process dead, for each batch in its queue."""


class MortalComponents(PlainComponents):
    """A call of a dead component fails a second later; those behind it, a second after each."""

    def __init__(self, call_s: float = 0.01) -> None:
        super().__init__()
        self.call_s = call_s
        self.lives: Counter[str] = Counter()
        """How often each component has died."""
        self.dead: set[str] = set()
        self._queued: Counter[tuple[str, int]] = Counter()
        self._given_up: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)

    def kill(self, model: str) -> None:
        """End the process of a component; it counts as loaded until `unload`."""
        self.lives[model] += 1
        self.dead.add(model)
        self.open.pop(model, None)

    def unload(self, model: str) -> None:
        self.missing.add(model)
        self.open.pop(model, None)

    def load(self, model: str) -> None:
        self.missing.discard(model)
        self.dead.discard(model)

    def give_up(self, model: str) -> None:
        self._given_up.pop(model, asyncio.Event()).set()

    async def replace(self, model: str, *, found_s: float = 0.5, load_s: float = 1.0) -> None:
        """Do as a launcher: find the process dead, unload the model and load it."""
        await asyncio.sleep(found_s)
        self.unload(model)
        await asyncio.sleep(load_s)
        self.load(model)

    async def call(self, call: Call) -> Mapping[str, HostTensor]:
        model = call.model
        if model in self.missing:
            raise missing(model)
        life = self.lives[model]
        if model not in self.dead:
            await asyncio.sleep(self.call_s)
        if model in self.dead or self.lives[model] != life:
            self.calls.append(model)
            self._queued[model, life] += 1
            with suppress(TimeoutError):
                failure_s = FAILURE_S * self._queued[model, life]
                await asyncio.wait_for(self._given_up[model].wait(), failure_s)
            raise ComponentAwayError(f"the process of {model} has died")
        return await super().call(call)
