"""Kill, freeze and starve the processes of a server while it is asked, and time the way back."""

import asyncio
import os
import resource
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise

import psutil

from lab.chaos.honest import RECORDING, REQUEST_OF_MODEL, Honest, Reply
from lab.chaos.served import Serve

KILLED, FROZEN, STARVED, HUNG = "killed", "frozen", "starved", "hung"
TRITON = "tritonserver"
POLL_S = 0.5
"""Seconds between two requests: what a time without service is exact to."""
POLL_PATIENCE_S = 40.0
LEAST_S = 4.0
"""Shortest time for which a server is asked after a strike."""
GIVE_UP_S = 45.0
"""Seconds after which a server that gives no right answer is started again."""
FLOOR_BYTES = 1 << 20
"""Memory that a starved process may map: nothing more than it has."""


@dataclass(frozen=True, slots=True)
class Strike:
    victim: str
    how: str
    without_service_s: float | None
    """Longest time between two right answers; None if the server had to be started again."""
    requests: int
    lost: int
    """Requests that got neither their text nor the word that the server is busy."""
    first_loss: str = ""

    @property
    def is_healed(self) -> bool:
        return self.without_service_s is not None


async def strike(serve: Serve, honest: Honest, victim: str, how: str) -> Strike:
    """Hit all processes of a model, or `tritonserver`, while requests that need it come."""
    request = REQUEST_OF_MODEL.get(victim, RECORDING)
    replies: list[Reply] = []
    asking: set[asyncio.Task[None]] = set()

    async def ask() -> None:
        replies.append(await honest.ask(request, patience_s=POLL_PATIENCE_S))

    async def ask_until(is_over: Callable[[], bool]) -> None:
        while not is_over():
            asking.add(task := asyncio.create_task(ask()))
            task.add_done_callback(asking.discard)
            await asyncio.sleep(POLL_S)

    begun = time.monotonic()
    await ask_until(lambda: _rights(replies, begun) >= 3 or time.monotonic() > begun + GIVE_UP_S)
    hit = _processes(serve, victim)
    struck_at = time.monotonic()
    if how == HUNG:
        assert serve.hanging is not None
        serve.hanging.hang(victim, "sleeps")
    else:
        for process in hit:
            _hit(process, how)
    await ask_until(lambda: _is_decided(serve, replies, struck_at))
    is_back = serve.is_running and _rights_in_a_row(replies, struck_at)
    for process in hit:
        _release(process, how)
    if not is_back:
        for task in asking:
            task.cancel()
    await asyncio.gather(*asking, return_exceptions=True)
    after = [item for item in replies if item.answered_at > struck_at]
    lost = [item for item in after if item.outcome not in ("right", "busy")]
    return Strike(
        victim,
        how,
        round(longest_gap(after, struck_at), 2) if is_back else None,
        len(after),
        len(lost),
        lost[0].outcome[:200] if lost else "",
    )


def longest_gap(replies: Sequence[Reply], begin: float) -> float:
    """Return the longest time without a right answer, in seconds, from `begin` to the last one."""
    times = [begin, *sorted(item.answered_at for item in replies if item.outcome == "right")]
    return max((later - earlier for earlier, later in pairwise(times)), default=0.0)


def _is_decided(serve: Serve, replies: Sequence[Reply], struck_at: float) -> bool:
    elapsed = time.monotonic() - struck_at
    if not serve.is_running or elapsed > GIVE_UP_S:
        return True
    return elapsed > LEAST_S and _rights_in_a_row(replies, struck_at)


def _rights(replies: Sequence[Reply], since: float) -> int:
    return sum(item.outcome == "right" for item in replies if item.sent_at >= since)


def _rights_in_a_row(replies: Sequence[Reply], since: float) -> bool:
    sent = sorted(
        (item for item in replies if item.sent_at >= since), key=lambda item: item.sent_at
    )
    return len(sent) >= 3 and all(item.outcome == "right" for item in sent[-3:])


def _processes(serve: Serve, victim: str) -> list[psutil.Process]:
    if victim == TRITON:
        ids = [serve.triton]
    else:
        ids = [pid for pid, model in serve.stubs().items() if model == victim]
    processes = []
    for pid in ids:
        with suppress(psutil.NoSuchProcess, TypeError):
            processes.append(psutil.Process(pid))
    return processes


def _hit(process: psutil.Process, how: str) -> None:
    with suppress(psutil.NoSuchProcess):
        if how == STARVED:
            process.rlimit(resource.RLIMIT_AS, (FLOOR_BYTES, resource.RLIM_INFINITY))
        else:
            process.send_signal(signal.SIGKILL if how == KILLED else signal.SIGSTOP)


def _release(process: psutil.Process, how: str) -> None:
    """Give a process that is still there back what was taken from it."""
    with suppress(psutil.NoSuchProcess, ProcessLookupError):
        if how == STARVED:
            process.rlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        elif how == FROZEN and process.is_running():
            os.kill(process.pid, signal.SIGCONT)
