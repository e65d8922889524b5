"""`python -m lab chaos`: hostile requests, overload and faults against a server of its own."""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from conch.bench.header import Flat, Header
from conch.bench.servers import triton_version
from conch.client import AsyncClient
from conch.gateway import GatewayConfig
from conch.launcher.repositories import shipped_repositories
from conch.recognition.config import RecognitionConfig
from conch.wire.entry_points import ENTRY_POINTS
from lab.chaos import attacks, clients
from lab.chaos.budget import worst_case_mb
from lab.chaos.census import Census, census, grown, left_over, server_names
from lab.chaos.doors import DOORS, Hostile, Target, target_at
from lab.chaos.drawn import drawn
from lab.chaos.fuzz import Fault, Sent, fuzz
from lab.chaos.hanging_models import HangingModels
from lab.chaos.honest import (
    ALL_REQUESTS,
    BY_GATEWAY,
    REQUEST_OF_MODEL,
    REQUESTS,
    Honest,
    Replies,
    Reply,
    open_streams,
)
from lab.chaos.memory import small_memory
from lab.chaos.served import Serve, can_have_small_memory, say
from lab.chaos.speech import RATE, speech
from lab.chaos.strikes import FROZEN, HUNG, KILLED, STARVED, TRITON, Strike, strike
from lab.command import lab_header

PHASES = (
    *("fuzz", "strangers", "clients", "overload", "deadlines"),
    *("poison", "flood", "faults", "memory"),
)
# Honest requests would be part of the crowd. At Triton's own ports they are lost with the process
# that the file ends, as in the phase of faults.
HONEST: Mapping[str, tuple[str, ...]] = {"overload": (), "poison": (BY_GATEWAY,)}
"""Honest requests next to a phase, where they are not all."""
WARM_UPS = 3
"""Rounds of honest requests of every kind at once before the first count."""
SETTLE_S = 120.0
"""Seconds for abandoned streams to expire, and for connections to close, before the last count."""
POLL_S = 1.0
STOP_GOAL_S = 8.0
"""Longest stop with idle live streams: 5 s, and what a busy machine adds."""
IDLE_STREAMS = 3
"""Live streams that are open when the server has to stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChaosCampaign:
    seed: int = 1
    requests: int = 3_000
    minutes: float = 15.0
    phases: Sequence[str] = PHASES
    only: str | None = None
    """`DOOR`, or `DOOR:NUMBER` for one item of what is drawn for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseRow:
    """A row of the table: what was sent, what held, and what honest clients got meanwhile."""

    phase: str
    sent: int
    outcomes: Mapping[str, int]
    faults: int
    honest: int
    honest_busy: int
    honest_wrong: int
    honest_median_s: float | None
    took_s: float


@dataclass(slots=True, kw_only=True)
class ChaosReport:
    header: Flat[Header]
    phases: list[PhaseRow] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    strikes: list[Strike] = field(default_factory=list)
    before: Census | None = None
    after: Census | None = None
    stop_s: float | None = None
    """Seconds from SIGTERM, with live streams open, to the end."""
    restarts: int = 0
    failures: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    took_s: float = 0.0


def run(campaign: ChaosCampaign) -> ChaosReport:
    return asyncio.run(_run(campaign))


async def _run(campaign: ChaosCampaign) -> ChaosReport:
    begun = time.monotonic()
    report = ChaosReport(header=lab_header("chaos", campaign))
    with TemporaryDirectory(prefix="chaos-") as folder:
        running = Running(campaign, Path(folder), report)
        try:
            await running.start()
            version = triton_version(running.serve.addresses.http)
            report.header = report.header.with_triton(version)
            await running.all_phases()
            await running.end()
        finally:
            await running.close()
    report.took_s = round(time.monotonic() - begun, 1)
    return report


class Running:
    """A campaign under way: the server, the clients of it, and what was found."""

    def __init__(self, campaign: ChaosCampaign, folder: Path, report: ChaosReport) -> None:
        self._campaign, self._folder, self.report = campaign, folder, report
        count = max(campaign.requests // len(DOORS), 1) if "fuzz" in campaign.phases else 0
        self._items = {
            door: drawn(strategy, count, campaign.seed) if count else []
            for door, strategy in DOORS.items()
        }
        components = shipped_repositories()[1]
        hanging = HangingModels(components, folder)
        self.serve = Serve(folder, hanging=hanging)
        self._texts: dict[str, str] = {}
        self._until = time.monotonic() + 60 * campaign.minutes
        self._connections = AsyncExitStack()
        self._names: set[str] = set()

    async def start(self) -> None:
        """Start the server, connect, learn the texts, and count what it holds when warm."""
        say(f"server ready after {await self.serve.start():.1f} s")
        self._connections = AsyncExitStack()
        enter = self._connections.enter_async_context
        self.target: Target = await enter(target_at(self.serve.addresses))
        self.honest = await enter(Honest(self.serve.addresses, self._texts))
        await self.honest.learn(ALL_REQUESTS)
        self._texts = self.honest.texts
        for _ in range(WARM_UPS):
            await asyncio.gather(*(self.honest.ask(request) for request in ALL_REQUESTS))
        self._names |= server_names(self.serve.pid)
        self.report.before = await self._settled(None)

    async def all_phases(self) -> None:
        """Run the phases that are asked for, as long as there is time."""
        campaign = self._campaign
        for phase in PHASES if campaign.only is None else ("fuzz",):
            if phase in campaign.phases and self._has_time(phase):
                await self._run_phase(phase)
                await self._up(phase)

    async def _run_phase(self, phase: str) -> None:
        special = {"fuzz": self._fuzz, "faults": self._faults, "memory": self._memory}
        if phase in special:
            await special[phase]()
            return
        server = f"grpc://{self.serve.addresses.grpc}"
        attack: Mapping[str, Callable[[], Awaitable[Sent]]] = {
            "strangers": lambda: attacks.strangers(server, self._folder),
            "clients": lambda: clients.vanish(self.target, self._campaign.seed),
            "overload": lambda: clients.crowd(self.honest),
            "deadlines": lambda: clients.hurry(self.target),
            "poison": lambda: attacks.poison(self.serve, self.target),
            "flood": self._flood,
        }
        await self._attack(attack[phase], HONEST.get(phase, REQUESTS))

    def _has_time(self, what: str) -> bool:
        """Return whether there is time for it; note it as left out otherwise."""
        has_time = time.monotonic() <= self._until
        if not has_time:
            self.report.left_out.append(f"{what}: no time was left")
        return has_time

    async def end(self) -> None:
        """Count, stop the server with live streams open, and look for what is left."""
        assert self.report.before is not None
        self.report.after = await self._settled(self.report.before)
        self.report.failures += grown(self.report.before, self.report.after)
        self._names |= server_names(self.serve.pid)
        addresses = self.serve.addresses
        async with AsyncClient(f"grpc://{addresses.grpc}") as client:
            for _ in range(IDLE_STREAMS):
                await client.live(mode="streaming").send(speech()[:RATE])
            stop_s = await self.serve.stop()
        await self._connections.aclose()
        self.report.failures += left_over(self._names, addresses)
        if stop_s > STOP_GOAL_S:
            message = f"SIGTERM with {IDLE_STREAMS} idle live streams: {stop_s:.1f} s to the end"
            self.report.failures.append(message)
        say(f"stopped in {stop_s:.1f} s with {IDLE_STREAMS} live streams open")
        self.report.stop_s = round(stop_s, 2)

    async def close(self) -> None:
        await self._connections.aclose()
        if self.serve.is_running:
            await self.serve.stop()

    async def _fuzz(self) -> None:
        campaign = self._campaign
        name, _, number = (campaign.only or "").partition(":")
        doors = [door for door in DOORS if name in ("", door)]
        for door in doors:
            if not self._has_time(door):
                continue
            items: Sequence[Hostile] = self._items[door]
            if number:
                items = items[int(number) : int(number) + 1]
                say(f"sending {items!r}")

            async def send(door: str = door, items: Sequence[Hostile] = items) -> Sent:
                return await fuzz(self.target, door, items, until=self._until)

            await self._attack(send)
            await self._up(door)

    async def _flood(self) -> Sent:
        sent, _, peak_mb = await attacks.flood(self.serve, self.target, attacks.Flood())
        budget_mb = sum(worst_case_mb(RecognitionConfig(), GatewayConfig()).values())
        say(f"flood: {peak_mb:.0f} MB at most, of {budget_mb:.0f} MB by configuration")
        if peak_mb > budget_mb:
            self.report.failures.append(f"flood: {peak_mb:.0f} MB, beyond the budget")
        return sent

    async def _faults(self) -> None:
        models = sorted(REQUEST_OF_MODEL)
        order = [(model, KILLED) for model in (*models, TRITON)]
        order += [(model, HUNG) for model in models if model not in ENTRY_POINTS]
        # Then tritonserver begins again: it keeps threads of a model that was ended in a call.
        order += [(model, FROZEN) for model in (*models, TRITON)]
        order += [(model, STARVED) for model in ("attention_encoder", "speech")]
        for victim, how in order:
            if not self._has_time(f"{victim} {how}"):
                continue
            result = await strike(self.serve, self.honest, victim, how)
            self.report.strikes.append(result)
            service = "not healed" if not result.is_healed else f"{result.without_service_s:.1f} s"
            lost = f"lost {result.lost} of {result.requests}"
            say(f"{victim} {how}: without service {service}, {lost}")
            if not result.is_healed:
                self.report.failures.append(f"{victim} {how}: the server needed a restart")
                await self._again()

    async def _memory(self) -> None:
        if not await can_have_small_memory():
            self.report.left_out.append("full /dev/shm: this machine lets no program have its own")
            return
        begun = time.monotonic()
        sent = await small_memory(self._folder)
        self._add(sent, Replies(), begun)

    async def _attack(
        self, send: Callable[[], Awaitable[Sent]], requests: tuple[str, ...] = REQUESTS
    ) -> None:
        begun = time.monotonic()
        async with self.honest.alongside(requests) as replies:
            sent = await send()
        self._add(sent, replies, begun)

    def _add(self, sent: Sent, replies: Replies, begun: float) -> None:
        outcomes = Counter(sent.outcomes)
        faults = outcomes.pop("faults", 0)
        row = PhaseRow(
            phase=sent.phase,
            sent=sent.count,
            outcomes=dict(outcomes),
            faults=faults,
            honest=len(replies.items),
            honest_busy=replies.busy,
            honest_wrong=len(replies.wrong),
            honest_median_s=replies.median_s,
            took_s=round(time.monotonic() - begun, 1),
        )
        self.report.phases.append(row)
        self.report.faults += sent.faults
        if faults:
            self.report.failures.append(f"{sent.phase}: {faults} answers did not hold")
        for item in replies.wrong[:5]:
            message = f"{sent.phase}: an honest request ({item.request}): {item.outcome:.300}"
            self.report.failures.append(message)
        say(f"{row.phase}: {row.sent} sent, {faults} did not hold, honest {replies.right} right")

    async def _up(self, phase: str) -> None:
        """Start the server again if it has ended, or does not answer honest requests."""
        if self.serve.is_running:
            replies = [await self._answered(request) for request in ALL_REQUESTS]
            wrong = [item for item in replies if item.outcome != "right"]
            if not wrong:
                return
            message = f"{wrong[0].request}: {wrong[0].outcome:.300}"
            self.report.failures.append(f"after {phase}: {message}")
            if len(wrong) < len(replies):
                return
        self.report.failures.append(f"{phase}: the server needed a restart")
        await self._again()

    async def _answered(self, request: str) -> Reply:
        """Ask until the server is not busy: a model that was killed may still be loading."""
        until = time.monotonic() + SETTLE_S
        while True:
            reply = await self.honest.ask(request)
            if reply.outcome != "busy" or time.monotonic() > until:
                return reply
            await asyncio.sleep(POLL_S)

    async def _again(self) -> None:
        self.report.restarts += 1
        self._names |= server_names(self.serve.pid) if self.serve.is_running else set()
        await self._connections.aclose()
        await self.serve.stop()
        await self.start()

    async def _settled(self, before: Census | None) -> Census:
        """Count what the server holds, as soon as no stream is open and nothing has grown."""
        deadline = time.monotonic() + SETTLE_S
        while True:
            counted = census(self.serve.pid, await open_streams(self.target))
            is_settled = not (counted.streams if before is None else grown(before, counted))
            if is_settled or time.monotonic() > deadline:
                return counted
            await asyncio.sleep(POLL_S)
