"""Work that nobody waits for any more."""

import asyncio
import threading

import pytest
from loop_gateway import until

from conch.gateway.format import in_own_thread


def count_for_ever(counts: list[int], threads: list[threading.Thread]) -> None:
    threads.append(threading.current_thread())
    while True:
        counts[0] += 1


async def test_work_ends_with_the_one_who_waits_for_it(capfd: pytest.CaptureFixture[str]) -> None:
    counts, threads = [0], list[threading.Thread]()
    waiting = asyncio.create_task(in_own_thread(lambda: count_for_ever(counts, threads)))
    await until(lambda: counts[0] > 0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await until(lambda: not threads[0].is_alive())
    assert capfd.readouterr().err == ""


async def test_its_result_and_its_error_are_those_of_the_work() -> None:
    assert await in_own_thread(lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        await in_own_thread(lambda: 1 // 0)
