"""The closed loop: a fixed number of clients, each sending its next request when answered.

A closed loop shows throughput at a chosen concurrency. Its latencies are those of a server that
is never offered more than it takes; they say nothing about queues under an open, paced load.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from conch.errors import ConchError

LOAD = "closed loop"

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Outcome(Generic[Answer]):
    """What came of one request: an answer or an error message."""

    index: int
    """Place in the order of sending."""
    latency_s: float
    """From the call of the client to its return."""
    answer: Answer | None
    error: str = ""


@dataclass(frozen=True)
class Load(Generic[Answer]):
    """Everything that came of one run."""

    outcomes: tuple[Outcome[Answer], ...]
    """In order of sending."""
    wall_s: float
    """From the first request sent to the last one answered."""


async def closed_loop(
    send: Callable[[int], Awaitable[Answer]],
    requests: int,
    concurrency: int,
    on_outcome: Callable[[Outcome[Answer]], None] = lambda outcome: None,
) -> Load[Answer]:
    """Send requests 0 to `requests` - 1, `concurrency` of them at a time.

    A request that fails with a `ConchError` is an outcome like any other; whatever else is raised
    is a defect and ends the run.

    Args:
        send: makes the request of that index and returns its answer.
        requests: how many.
        concurrency: how many are under way at once, but for the last ones.
        on_outcome: called at each answer, for the progress bar.
    """
    waiting = iter(range(requests))
    outcomes: list[Outcome[Answer]] = []

    async def client(indices: Iterator[int]) -> None:
        # The clients share one iterator: whoever is free takes the next request.
        for index in indices:
            outcome = await _timed(send, index)
            outcomes.append(outcome)
            on_outcome(outcome)

    started = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(min(concurrency, requests)):
            group.create_task(client(waiting))
    wall_s = time.perf_counter() - started
    return Load(tuple(sorted(outcomes, key=lambda outcome: outcome.index)), wall_s)


async def _timed(send: Callable[[int], Awaitable[Answer]], index: int) -> Outcome[Answer]:
    started = time.perf_counter()
    try:
        answer = await send(index)
    except ConchError as error:
        message = str(error) or type(error).__name__
        return Outcome(index, time.perf_counter() - started, None, message)
    return Outcome(index, time.perf_counter() - started, answer)
