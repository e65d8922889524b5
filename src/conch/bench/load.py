"""The offered load: a closed loop of clients, or requests at given times (paced).

In a closed loop a fixed number of clients send, each its next request when the last one is
answered. It shows throughput at a chosen concurrency. Its latencies are those of a server that is
never offered more than it takes. A paced load sends each request when it is due, whether or not
earlier ones are answered. Its latencies count from then, so a server that falls behind cannot hide
the queue (coordinated omission).
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

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
        """Its name in a report."""
        return CLOSED_LOOP if self.rate is None else PACED

    @property
    def title(self) -> str:
        """Its name in a table."""
        if self.rate is None:
            return f"{CLOSED_LOOP}, {self.concurrency}"
        return f"{PACED}, {self.rate:g}/s"

    @property
    def connections(self) -> int:
        """Most connections that a client needs."""
        return self.concurrency or PACED_CONNECTIONS


@dataclass(frozen=True)
class Outcome(Generic[Answer]):
    """The answer to one request, or its error message."""

    index: int
    """Place in the order of sending."""
    latency_s: float
    """From the client's call, or from when a paced request was due, to the client's return."""
    answer: Answer | None
    error: str = ""


@dataclass(frozen=True)
class Load(Generic[Answer]):
    """The outcomes of one run."""

    outcomes: tuple[Outcome[Answer], ...]
    """In order of sending."""
    wall_s: float
    """Seconds from the first request to the last answer."""


async def offer(
    send: Callable[[int], Awaitable[Answer]],
    requests: int,
    offered: Offer,
    on_outcome: Callable[[Outcome[Answer]], None] = lambda outcome: None,
) -> Load[Answer]:
    """Send requests 0 to `requests` - 1 under a load; see `closed_loop` and `paced`."""
    if offered.rate is not None:
        return await paced(send, arrivals_s(requests, offered.rate), on_outcome)
    return await closed_loop(send, requests, offered.concurrency or 1, on_outcome)


async def closed_loop(
    send: Callable[[int], Awaitable[Answer]],
    requests: int,
    concurrency: int,
    on_outcome: Callable[[Outcome[Answer]], None] = lambda outcome: None,
) -> Load[Answer]:
    """Send requests 0 to `requests` - 1, `concurrency` of them at a time.

    A request that fails with a `ConchError` is an outcome like any other. Any other exception is a
    defect and ends the run.

    Args:
        send: sends the request of an index and returns its answer.
        requests: number of requests.
        concurrency: number of requests in flight, except at the end.
        on_outcome: called at each answer, for the progress bar.
    """
    waiting = iter(range(requests))
    outcomes: list[Outcome[Answer]] = []

    async def client(indices: Iterator[int]) -> None:
        # The clients share one iterator: a free client takes the next request.
        for index in indices:
            outcome = await _timed(send, index, time.perf_counter())
            outcomes.append(outcome)
            on_outcome(outcome)

    started = time.perf_counter()
    await _all_of(client(waiting) for _ in range(min(concurrency, requests)))
    return _load(outcomes, started)


async def paced(
    send: Callable[[int], Awaitable[Answer]],
    due_s: list[float],
    on_outcome: Callable[[Outcome[Answer]], None] = lambda outcome: None,
) -> Load[Answer]:
    """Send a request at each of the given times, in seconds from the start; see `closed_loop`."""
    outcomes: list[Outcome[Answer]] = []
    started = time.perf_counter()

    async def request(index: int, due: float) -> None:
        await asyncio.sleep(due - time.perf_counter())
        outcome = await _timed(send, index, due)
        outcomes.append(outcome)
        on_outcome(outcome)

    await _all_of(request(index, started + offset) for index, offset in enumerate(due_s))
    return _load(outcomes, started)


def arrivals_s(requests: int, rate: float, seed: int = 0) -> list[float]:
    """Return when requests are due, in seconds: a Poisson process, the same one each time.

    The number of its events is fixed, and fixed events are spread evenly over the time. So even a
    few requests have exactly the given rate.

    Args:
        requests: number of requests.
        rate: requests per second.
        seed: seed of the process.
    """
    rng = random.Random(seed)
    return sorted(rng.uniform(0, requests / rate) for _ in range(requests))


async def _all_of(coroutines: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Run coroutines at the same time; the first error cancels the others and is raised."""
    tasks = [asyncio.create_task(coroutine) for coroutine in coroutines]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _load(outcomes: list[Outcome[Answer]], started: float) -> Load[Answer]:
    wall_s = time.perf_counter() - started
    return Load(tuple(sorted(outcomes, key=lambda outcome: outcome.index)), wall_s)


async def _timed(
    send: Callable[[int], Awaitable[Answer]], index: int, started: float
) -> Outcome[Answer]:
    try:
        answer = await send(index)
    except ConchError as error:
        message = str(error) or type(error).__name__
        return Outcome(index, time.perf_counter() - started, None, message)
    return Outcome(index, time.perf_counter() - started, answer)
