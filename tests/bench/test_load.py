import asyncio

import pytest

from conch.bench.load import Load, closed_loop
from conch.errors import AudioError


def run(requests: int, concurrency: int, fails: int | None = None) -> tuple[Load[int], int]:
    """Return the load and the most requests that were under way at once."""
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

    with pytest.raises(ExceptionGroup) as caught:
        asyncio.run(closed_loop(send, 4, 1))
    assert isinstance(caught.value.exceptions[0], KeyError)


def test_no_requests() -> None:
    load, _ = run(0, 4)
    assert load.outcomes == ()
