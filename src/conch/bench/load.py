"""The offered load: a closed loop of clients, or requests at given times (paced).

In a closed loop each of some clients sends its next request when the last one is answered. Its
latencies are those of a server that is never offered more than it takes. A paced load sends each
request when it is due. Its latencies count from then, so a server that falls behind cannot hide the
queue (coordinated omission).
"""

import asyncio
import random
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from tqdm import tqdm

from conch.client.aio import all_of
from conch.wire.errors import ConchError

CLOSED_LOOP = "closed loop"
PACED = "paced"
PACED_CONNECTIONS = 256
"""Connections of a paced load's client; a request waits for another only beyond these."""
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """The offered load; one of the two fields is set."""

    concurrency: int | None = None
    """Clients of a closed loop."""
    rate: float | None = None
    """Requests per second of a paced load."""

    @property
    def load(self) -> str:
        return CLOSED_LOOP if self.rate is None else PACED

    @property
    def title(self) -> str:
        if self.rate is None:
            return f"{CLOSED_LOOP}, {self.concurrency}"
        return f"{PACED}, {self.rate:g}/s"

    @property
    def connections(self) -> int:
        return self.concurrency or PACED_CONNECTIONS


@dataclass(frozen=True)
class Outcome(Generic[Answer]):
    index: int
    """Position in the order of sending."""
    latency_s: float
    answer: Answer | None
    error: str = ""


@dataclass(frozen=True)
class LoadResult(Generic[Answer]):
    outcomes: tuple[Outcome[Answer], ...]
    wall_s: float
    """Seconds from the first request to the last answer."""


async def offer(
    send: Callable[[int], Awaitable[Answer]],
    requests: int,
    offered: Offer,
    on_outcome: Callable[[Outcome[Answer]], None] = lambda outcome: None,
) -> LoadResult[Answer]:
    """Send requests 0 to `requests` - 1 under a load; see `closed_loop` and `paced`."""
    if offered.rate is not None:
        return await paced(send, arrivals_s(requests, offered.rate), on_outcome)
    return await closed_loop(send, requests, offered.concurrency or 1, on_outcome)


async def closed_loop(
    send: Callable[[int], Awaitable[Answer]],
    requests: int,
    concurrency: int,
    on_outcome: Callable[[Outcome[Answer]], None] = lambda outcome: None,
) -> LoadResult[Answer]:
    """Send requests 0 to `requests` - 1, `concurrency` of them at a time.

    A request that fails with a ConchError is an outcome. Any other exception ends the run.
    """
    # The clients share one iterator: a free client takes the next request.
    waiting = ((index, None) for index in range(requests))
    clients = [waiting] * min(concurrency, requests)
    return await _load(send, clients, on_outcome)


async def paced(
    send: Callable[[int], Awaitable[Answer]],
    due_s: list[float],
    on_outcome: Callable[[Outcome[Answer]], None] = lambda outcome: None,
) -> LoadResult[Answer]:
    return await _load(send, [[item] for item in enumerate(due_s)], on_outcome)


def arrivals_s(requests: int, rate: float) -> list[float]:
    """Return when requests are due, in seconds: a Poisson process, the same one each time.

    Its events are fixed in number and spread evenly, so that even a few have exactly the rate.
    """
    rng = random.Random(0)
    return sorted(rng.uniform(0, requests / rate) for _ in range(requests))


async def _load(
    send: Callable[[int], Awaitable[Answer]],
    clients: Sequence[Iterable[tuple[int, float | None]]],
    on_outcome: Callable[[Outcome[Answer]], None],
) -> LoadResult[Answer]:
    """Let each client send its requests: indices, and the second when each is due, None at once."""
    outcomes: list[Outcome[Answer]] = []
    started = time.perf_counter()

    async def client(requests: Iterable[tuple[int, float | None]]) -> None:
        for index, due_s in requests:
            begun = time.perf_counter()
            if due_s is not None:
                begun = started + due_s
                await asyncio.sleep(begun - time.perf_counter())
            answer, error = None, ""
            try:
                answer = await send(index)
            except ConchError as failure:
                error = str(failure) or type(failure).__name__
            outcome = Outcome(index, time.perf_counter() - begun, answer, error)
            outcomes.append(outcome)
            on_outcome(outcome)

    await all_of(client(requests) for requests in clients)
    wall_s = time.perf_counter() - started
    return LoadResult(tuple(sorted(outcomes, key=lambda outcome: outcome.index)), wall_s)


def progress(title: str, total: int) -> "tqdm[Any]":
    """Return a progress bar on standard error, silent if that is not a terminal."""
    return tqdm(desc=title, total=total, unit="utt", file=sys.stderr, disable=None)
