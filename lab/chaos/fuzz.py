"""Send what was drawn for a door, several at a time, and count what holds."""

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from lab.chaos.answers import Answer, holds, outcome
from lab.chaos.doors import Hostile, Target

CLIENTS = 8
SHOWN_CHARS = 400
"""Of a request that did not hold, in the report."""


@dataclass(frozen=True, slots=True)
class Fault:
    phase: str
    number: int
    """Its place among what was drawn for the phase, from 0."""
    answer: str
    sent: str


@dataclass(slots=True)
class Sent:
    phase: str
    outcomes: Counter[str] = field(default_factory=Counter)
    faults: list[Fault] = field(default_factory=list)

    @property
    def count(self) -> int:
        """Answers, sessions and cut connections."""
        return self.outcomes.total()

    def count_answer(self, number: int, answer: Answer, what: str) -> None:
        """Count an answer; keep it, with what was sent, if it does not hold."""
        result = outcome(answer)
        if holds(answer):
            self.outcomes[result] += 1
            return
        self.outcomes["faults"] += 1
        self.faults.append(Fault(self.phase, number, result, what))


async def fuzz(
    target: Target, phase: str, items: Sequence[Hostile], *, until: float = float("inf")
) -> Sent:
    sent, waiting = Sent(phase), iter(enumerate(items))

    async def client() -> None:
        for number, item in waiting:
            if time.monotonic() > until:
                return
            await send_one(target, sent, number, item)

    await asyncio.gather(*(client() for _ in range(CLIENTS)))
    return sent


async def send_one(target: Target, sent: Sent, number: int, item: Hostile) -> None:
    for answer in await item.send(target):
        sent.count_answer(number, answer, f"{item!r:.{SHOWN_CHARS}}")
