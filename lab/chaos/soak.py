"""Honest clients for an hour while processes are killed at random: which answers are lost."""

import asyncio
import random
import shutil
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp

import psutil

from conch.bench.header import Flat, Header, machine_line
from conch.bench.servers import triton_version
from conch.scoring.error_rates import number, table
from lab.chaos.honest import BY_GATEWAY, BY_GRPC, CTC, LIVE, NGRAM, RECORDING, Honest
from lab.chaos.served import Serve, say
from lab.command import lab_header
from lab.reports import page

CLIENTS = (RECORDING, BY_GRPC, BY_GATEWAY, CTC, NGRAM, LIVE)
"""One client of each kind; all but the last are stateless."""
PAUSE_S = 1.0
KILL_EVERY_S = 120.0
AGAIN_AFTER_S = 5.0
"""Seconds after which a client repeats, once, what the protocol says may be repeated."""
COLUMNS = {"right": "right", "busy": "busy", "again": "right when sent again", "lost": "lost"}
"""What becomes of a request, as the report and the table name it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Soak:
    seconds: int
    seed: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SoakReport:
    header: Flat[Header]
    counts: Mapping[str, Mapping[str, int]]
    """What became of the requests of each client: their number, and COLUMNS."""
    killed: Sequence[str]
    restarts: int
    first_losses: Sequence[str]

    @property
    def lost(self) -> int:
        """Answers of stateless requests that never came."""
        return sum(outcomes["lost"] for request, outcomes in self.counts.items() if request != LIVE)


def run(soak: Soak) -> SoakReport:
    return asyncio.run(_run(soak))


async def _run(soak: Soak) -> SoakReport:
    header = lab_header("chaos-soak", soak)
    folder = Path(mkdtemp(prefix="chaos-"))
    serve = Serve(folder)
    await serve.start()
    try:
        header = header.with_triton(triton_version(serve.addresses.http))
        report = await _Soaking(soak, serve).report(header)
    finally:
        await serve.stop()
    if report.first_losses:
        say(f"something was lost; the log of the server is {serve.log}")
    else:
        shutil.rmtree(folder)
    return report


class _Soaking:
    def __init__(self, soak: Soak, serve: Serve) -> None:
        self._soak, self._serve = soak, serve
        self._until = time.monotonic() + soak.seconds
        self._counts: dict[str, Counter[str]] = {}
        self._killed: list[str] = []
        self._losses: list[str] = []
        self._restarts = 0

    async def report(self, header: Header) -> SoakReport:
        """Ask and kill until the time is over."""
        async with Honest(self._serve.addresses) as honest:
            await honest.learn(CLIENTS)
            clients = [asyncio.create_task(self._client(honest, request)) for request in CLIENTS]
            await self._kill()
            await asyncio.gather(*clients)
        return SoakReport(
            header=header,
            counts=self._counts,
            killed=self._killed,
            restarts=self._restarts,
            first_losses=self._losses[:10],
        )

    async def _client(self, honest: Honest, request: str) -> None:
        counts = self._counts[request] = Counter(dict.fromkeys(("requests", *COLUMNS), 0))
        while time.monotonic() < self._until and self._serve.is_running:
            counts["requests"] += 1
            reply = await honest.ask(request)
            result = reply.outcome if reply.outcome in ("right", "busy") else "lost"
            if result == "lost":
                await asyncio.sleep(AGAIN_AFTER_S)
                again = await honest.ask(request)
                result = "again" if again.outcome == "right" else "lost"
                if result == "lost":
                    self._losses.append(
                        f"{request}: {reply.outcome:.160}; then {again.outcome:.160}"
                    )
            counts[result] += 1
            await asyncio.sleep(PAUSE_S)

    async def _kill(self) -> None:
        chosen = random.Random(self._soak.seed)
        while (left := self._until - time.monotonic()) > 0:
            await asyncio.sleep(min(KILL_EVERY_S, left))
            if not self._serve.is_running:
                self._restarts += 1
                self._losses.append("conch serve has ended")
                return
            stubs = sorted(self._serve.stubs().items())
            if left > KILL_EVERY_S and stubs:
                pid, model = chosen.choice(stubs)
                say(f"killing a process of {model}")
                self._killed.append(model)
                with suppress(psutil.NoSuchProcess):
                    psutil.Process(pid).kill()


def markdown(report: SoakReport) -> str:
    names = ("requests", *COLUMNS)
    rows = [
        [request, *(str(outcomes[name]) for name in names)]
        for request, outcomes in report.counts.items()
    ]
    seconds = report.header.settings["seconds"]
    assert isinstance(seconds, int)
    return page(
        report.header,
        table(["client", "requests", *COLUMNS.values()], rows),
        f"Killed, one process every {KILL_EVERY_S:.0f} s: {', '.join(report.killed) or 'none'}.",
        *(f"- {item}" for item in report.first_losses),
        f"{number(seconds / 60, 0)} minutes; {machine_line(report.header)}",
    )
