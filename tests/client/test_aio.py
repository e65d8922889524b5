"""Coroutines that run at the same time, and blocks that have to end in time."""

import asyncio

import pytest

from conch.client.aio import all_of, within


async def test_results_are_in_order_and_an_error_ends_the_others() -> None:
    ended: list[str] = []

    second = asyncio.Event()

    async def waits() -> int:
        await second.wait()
        return 1

    async def goes() -> int:
        second.set()
        return 2

    assert await all_of([waits(), goes()]) == [1, 2]

    async def never() -> int:
        try:
            return await asyncio.Future()
        finally:
            await asyncio.sleep(0)
            ended.append("never")

    async def fails() -> int:
        raise ValueError("one")

    with pytest.raises(ValueError, match="one"):
        await all_of([never(), fails()])
    assert ended == ["never"]


@pytest.mark.virtual_time
async def test_a_block_that_takes_too_long_ends_with_the_error_that_was_named() -> None:
    late = ValueError("late")
    with pytest.raises(ValueError, match="late"):
        async with within(1.0, late):
            await asyncio.Future()
    for seconds in (1.0, None):
        async with within(seconds, late):
            await asyncio.sleep(0.5)
