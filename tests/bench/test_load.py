import asyncio
import time

import pytest

from conch.bench.load import LoadResult, Offer, arrivals_s, closed_loop, offer, paced
from conch.wire.errors import AudioError


def run(requests: int, concurrency: int, fails: int | None = None) -> tuple[LoadResult[int], int]:
    """Return the load and the largest number of requests in flight."""
    under_way, most = 0, 0

    async def send(index: int) -> int:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        # Yields to the other clients, a different number of times for each request.
        for _ in range(1 + index % 3):
            await asyncio.sleep(0)
        under_way -= 1
        if index == fails:
            raise AudioError("no samples")
        return index * 10

    return asyncio.run(closed_loop(send, requests, concurrency)), most


@pytest.mark.parametrize("concurrency", [1, 4, 7, 100])
def test_every_request_once_in_order_and_never_more_at_once(concurrency: int) -> None:
    load, most = run(20, concurrency)
    assert [outcome.index for outcome in load.outcomes] == list(range(20))
    assert [outcome.answer for outcome in load.outcomes] == [index * 10 for index in range(20)]
    assert most == min(concurrency, 20)


def test_latencies_lie_within_the_wall_time() -> None:
    load, _ = run(20, 4)
    assert 0 < max(outcome.latency_s for outcome in load.outcomes) <= load.wall_s


def test_one_failure_is_an_outcome_and_the_others_go_on() -> None:
    load, _ = run(10, 3, fails=4)
    failed = [outcome for outcome in load.outcomes if outcome.answer is None]
    assert [(outcome.index, outcome.error) for outcome in failed] == [(4, "no samples")]
    assert len(load.outcomes) == 10


def test_a_defect_ends_the_run() -> None:
    async def send(index: int) -> int:
        raise KeyError(index)

    with pytest.raises(KeyError):
        asyncio.run(closed_loop(send, 4, 1))


def test_no_requests() -> None:
    load, _ = run(0, 4)
    assert load.outcomes == ()


async def test_a_paced_request_does_not_wait_for_those_before() -> None:
    """The first request is answered only once the last one was sent."""
    all_sent = asyncio.Event()

    async def send(index: int) -> int:
        if index == 2:
            all_sent.set()
        await all_sent.wait()
        return index

    load = await paced(send, [0.0, 0.01, 0.02])
    assert [outcome.answer for outcome in load.outcomes] == [0, 1, 2]
    assert load.outcomes[0].latency_s >= 0.02
    assert load.wall_s >= 0.02


def test_a_paced_latency_counts_from_when_the_request_was_due() -> None:
    async def send(index: int) -> int:
        if index == 0:
            time.sleep(0.05)  # a client that is held up sends the next request late
        return index

    load = asyncio.run(paced(send, [0.0, 0.001]))
    assert load.outcomes[1].latency_s >= 0.04


def test_arrivals_meet_their_rate_and_are_the_same_each_time() -> None:
    due = arrivals_s(2000, 50.0)
    assert due == sorted(due) == arrivals_s(2000, 50.0)
    assert due[0] >= 0 and due[-1] <= 40
    gaps = sorted(later - due[index] for index, later in enumerate(due[1:]))
    # Exponential with a mean of 20 ms: its median is that times ln 2.
    assert gaps[len(gaps) // 2] == pytest.approx(0.02 * 0.693, rel=0.1)


@pytest.mark.parametrize(
    ("offered", "title"),
    [(Offer(concurrency=3), "closed loop, 3"), (Offer(rate=500.0), "paced, 500/s")],
)
def test_either_load_is_offered_by_name(offered: Offer, title: str) -> None:
    async def send(index: int) -> int:
        return index

    load = asyncio.run(offer(send, 5, offered))
    assert [outcome.answer for outcome in load.outcomes] == list(range(5))
    assert offered.title == title
