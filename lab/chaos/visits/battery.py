"""All strangers at the doors of a gateway, and honest clients next to them."""

import asyncio
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conch.gateway.doors import DOORS, Door
from lab.chaos.answers import NO_ANSWER, Answer, outcome
from lab.chaos.visits.behaviours import (
    BUSY,
    QUICK,
    SLOW,
    STAYING,
    Behaviour,
    Learned,
    learn,
    visited,
)
from lab.chaos.visits.sent import honest
from lab.gateway_process import GatewayAddresses, gateway_with

PATIENCE_S = 60.0
"""Seconds for an answer, and for what runs to end; the machine may be busy."""
POLL_S = 0.05
AT_ONCE = 2
"""Honest clients at once next to those who stay: their sessions are short."""
CROWD, THOSE_WHO_STAY = "a crowd", "those who stay"
IMPATIENT: Mapping[str, Any] = {
    "times": {"keep_alive_s": 6, "idle_s": 5, "settings_s": 5, "ping_s": 12, "send_s": 6},
    "max_session_s": 20.0,
}
"""Limits of a gateway that waits for nobody for long. An honest client on a busy machine may still
do nothing for some seconds."""
_FAULTS = ("ERROR", "CRITICAL", "Traceback", "Exception")
"""What no client may bring into the log."""


@dataclass(slots=True)
class Findings:
    answers: dict[tuple[str, str], list[tuple[Answer, bool]]] = field(default_factory=dict)
    """By door and behaviour, each with whether it is right."""
    honest: dict[str, list[tuple[Answer, bool]]] = field(default_factory=dict)
    """By door: what honest clients were given next to strangers, and whether also without them."""
    left: dict[str, Mapping[str, float]] = field(default_factory=dict)
    """By door or round, what still ran after all had left; empty if nothing did."""
    faults: dict[str, Sequence[str]] = field(default_factory=dict)
    """By door or round, lines of the log."""


class Battery:
    """Visits to a gateway whose log is a file."""

    def __init__(self, addresses: GatewayAddresses, log: Path, findings: Findings) -> None:
        self._addresses, self._log, self.findings = addresses, log, findings

    async def quick(self, door: Door, behaviours: Collection[Behaviour] = QUICK) -> None:
        """Let all strangers who soon leave visit a door at the same time, with an honest client."""
        read = self._log.stat().st_size
        learned = await learn(self._addresses.of(door), door)
        visits = (self._visit(door, behaviour, learned) for behaviour in behaviours)
        await asyncio.gather(*visits, self._honest(door, learned))
        self.findings.left[door.name] = await self._left()
        self.findings.faults[door.name] = self._faults(read)

    async def slow(
        self, doors: Collection[Door] = DOORS, behaviours: Collection[Behaviour] = SLOW
    ) -> None:
        """Let strangers who stay visit all doors at the same time, with honest clients.

        The gateway has to end all of their visits while they are still there.
        """
        read = self._log.stat().st_size
        learned = {door: await learn(self._addresses.of(door), door) for door in doors}
        few = asyncio.Semaphore(AT_ONCE)

        async def alongside(door: Door) -> None:
            async with few:
                await self._honest(door, learned[door])

        staying = [
            asyncio.create_task(behaviour.visit(self._addresses.of(door), door, learned[door]))
            for door in doors
            for behaviour in STAYING
        ]
        visits = (
            self._visit(door, behaviour, learned[door])
            for door in doors
            for behaviour in behaviours
        )
        await asyncio.gather(*visits, *map(alongside, doors))
        self.findings.left[THOSE_WHO_STAY] = await self._left()
        for task in staying:
            task.cancel()
        await asyncio.gather(*staying, return_exceptions=True)
        self.findings.faults[THOSE_WHO_STAY] = self._faults(read)

    async def crowd(
        self, door: Door, count: int, meanwhile: Callable[[], None] | None = None
    ) -> None:
        """Let honest clients visit a door at once: each is served, or told that the server is busy.

        `meanwhile` is called once some of them are in work.
        """
        read = self._log.stat().st_size
        address, learned = self._addresses.of(door), await learn(self._addresses.of(door), door)
        visits = asyncio.gather(*(visited(address, door, honest(door)) for _ in range(count)))
        if meanwhile is not None:
            while not visits.done() and not await asyncio.to_thread(self._addresses.running):
                await asyncio.sleep(POLL_S)
            meanwhile()
        self.findings.answers[door.name, CROWD] = [
            (answer, learned.is_given_again(answer) or outcome(answer) == BUSY)
            for answer in await visits
        ]
        self.findings.left[door.name] = await self._left()
        await self._honest(door, learned)
        self.findings.faults[door.name] = self._faults(read)

    async def _visit(self, door: Door, behaviour: Behaviour, learned: Learned) -> None:
        try:
            async with asyncio.timeout(PATIENCE_S):
                answers = await behaviour.visit(self._addresses.of(door), door, learned)
        except TimeoutError:
            answers = [Answer(NO_ANSWER, f"within {PATIENCE_S:g} s")]
        judged = [(answer, behaviour.is_right(answer, learned)) for answer in answers]
        self.findings.answers[door.name, behaviour.name] = judged

    async def _honest(self, door: Door, learned: Learned) -> None:
        answer = await visited(self._addresses.of(door), door, honest(door))
        judged = (answer, learned.is_given_again(answer))
        self.findings.honest.setdefault(door.name, []).append(judged)

    async def _left(self) -> Mapping[str, float]:
        """Return what still runs, as soon as nothing does."""
        until = time.monotonic() + PATIENCE_S
        while (running := await asyncio.to_thread(self._addresses.running)) and (
            time.monotonic() < until
        ):
            await asyncio.sleep(POLL_S)
        return running

    def _faults(self, read: int) -> list[str]:
        with self._log.open(errors="replace") as lines:
            lines.seek(read)
            return [line.strip()[:300] for line in lines if any(item in line for item in _FAULTS)]


async def visit_all(server: str, folder: Path) -> Findings:
    """Let strangers visit all doors of gateways in front of a server; logs go to a folder."""
    findings = Findings()
    with gateway_with(server, log := folder / "quick.log") as addresses:
        for door in DOORS:
            await Battery(addresses, log, findings).quick(door)
    with gateway_with(server, log := folder / "slow.log", **IMPATIENT) as addresses:
        await Battery(addresses, log, findings).slow()
    return findings
