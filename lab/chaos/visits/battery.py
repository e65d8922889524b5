"""All strangers at the doors of a gateway, and honest clients beside them."""

import asyncio
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from conch.gateway.doors import Door
from lab.chaos.answers import NO_ANSWER, Answer
from lab.chaos.visits.behaviours import QUICK, SLOW, STAYING, Behaviour, Learned, learn, visited
from lab.chaos.visits.places import Places
from lab.chaos.visits.sent import honest

PATIENCE_S = 60.0
"""Seconds for an answer, and for what runs to end; the machine may be busy."""
POLL_S = 0.05
AT_ONCE = 2
"""Honest clients at once beside those who stay: their sessions are short."""
_FAULTS = ("ERROR", "CRITICAL", "Traceback", "Exception")
"""What no client may bring into the log."""


@dataclass(slots=True)
class Found:
    """What came of visits."""

    answers: dict[tuple[str, str], list[tuple[Answer, bool]]] = field(default_factory=dict)
    """By door and behaviour, each with whether it is right."""
    honest: dict[str, list[tuple[Answer, Answer]]] = field(default_factory=dict)
    """By door: what honest clients were given beside strangers, and without them."""
    left: dict[str, Mapping[str, float]] = field(default_factory=dict)
    """By door or round, what still ran after all had left; empty if nothing did."""
    faults: dict[str, Sequence[str]] = field(default_factory=dict)
    """By door or round, lines of the log."""


class Battery:
    """Visits to a gateway whose log is a file."""

    def __init__(self, places: Places, log: Path) -> None:
        """Prepare visits; nothing is sent yet."""
        self._places, self._log = places, log
        self.found = Found()

    async def quick(self, door: Door, behaviours: Collection[Behaviour] = QUICK) -> None:
        """Let all strangers who soon leave visit a door at the same time, with an honest client."""
        read = self._log.stat().st_size
        learned = await learn(self._places.of(door), door)
        visits = (self._visit(door, behaviour, learned) for behaviour in behaviours)
        await asyncio.gather(*visits, self._honest(door, learned))
        self.found.left[door.name] = await self._left()
        self.found.faults[door.name] = self._faults(read)

    async def slow(
        self, doors: Collection[Door], name: str, behaviours: Collection[Behaviour] = SLOW
    ) -> None:
        """Let strangers who stay visit all doors at the same time, with honest clients.

        The gateway has to end all of their visits while they are still there.
        """
        read = self._log.stat().st_size
        learned = {door: await learn(self._places.of(door), door) for door in doors}
        few = asyncio.Semaphore(AT_ONCE)

        async def beside(door: Door) -> None:
            async with few:
                await self._honest(door, learned[door])

        staying = [
            asyncio.create_task(behaviour.visit(self._places.of(door), door, learned[door]))
            for door in doors
            for behaviour in STAYING
        ]
        visits = (
            self._visit(door, behaviour, learned[door])
            for door in doors
            for behaviour in behaviours
        )
        await asyncio.gather(*visits, *map(beside, doors))
        self.found.left[name] = await self._left()
        for task in staying:
            task.cancel()
        await asyncio.gather(*staying, return_exceptions=True)
        self.found.faults[name] = self._faults(read)

    async def _visit(self, door: Door, behaviour: Behaviour, learned: Learned) -> None:
        try:
            async with asyncio.timeout(PATIENCE_S):
                answers = await behaviour.visit(self._places.of(door), door, learned)
        except TimeoutError:
            answers = [Answer(NO_ANSWER, f"within {PATIENCE_S:g} s")]
        judged = [(answer, behaviour.is_right(answer, learned)) for answer in answers]
        self.found.answers[door.name, behaviour.name] = judged

    async def _honest(self, door: Door, learned: Learned) -> None:
        answer = await visited(self._places.of(door), door, honest(door))
        self.found.honest.setdefault(door.name, []).append((answer, learned.answer))

    async def _left(self) -> Mapping[str, float]:
        """Return what still runs, as soon as nothing does."""
        until = time.monotonic() + PATIENCE_S
        while (running := await asyncio.to_thread(self._places.running)) and (
            time.monotonic() < until
        ):
            await asyncio.sleep(POLL_S)
        return running

    def _faults(self, read: int) -> list[str]:
        with self._log.open(errors="replace") as lines:
            lines.seek(read)
            return [line.strip()[:300] for line in lines if any(item in line for item in _FAULTS)]
