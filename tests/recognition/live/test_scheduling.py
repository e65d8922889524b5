"""Which pass has the next place."""

import asyncio

import pytest

from conch.recognition.live.scheduling import PassQueue, Rank
from conch.wire.errors import ComponentError, OverloadedError


class Passes:
    """Passes of a queue that go on until they are let go; `began` has their names in order."""

    def __init__(self, most: int) -> None:
        self.queue = PassQueue(most)
        self.began: list[str] = []
        self._let_go: dict[str, asyncio.Event] = {}

    def add(self, name: str, due: float = 0.0, **how) -> asyncio.Task:
        self._let_go[name] = asyncio.Event()

        async def make() -> str:
            self.began.append(name)
            await self._let_go[name].wait()
            return name

        how.setdefault("rank", Rank.SECOND if name.startswith("second") else Rank.ROLLING)
        return asyncio.create_task(self.queue.run(make, due=due, **how))

    async def end(self, task: asyncio.Task, name: str) -> None:
        self._let_go[name].set()
        assert await task == name
        await turns()


async def turns() -> None:
    """Let every task go on as far as it can."""
    for _ in range(10):
        await asyncio.sleep(0)


async def has_places(queue: PassQueue, most: int) -> bool:
    """Whether all places of an idle queue are free, and no more."""
    passes = Passes(most)
    passes.queue = queue
    tasks = [passes.add(f"second {index}") for index in range(most + 1)]
    await turns()
    count = len(passes.began)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return count == most


async def test_second_passes_come_first_and_then_what_is_due_first():
    passes = Passes(1)
    names = {"first": 0, "late": 9, "early": 1, "second late": 8, "second early": 7}
    tasks = {}
    for name, due in names.items():
        tasks[name] = passes.add(name, due)
        await turns()
    for name in ("first", "second early", "second late", "early", "late"):
        await passes.end(tasks[name], name)
    assert passes.began == ["first", "second early", "second late", "early", "late"]
    assert await has_places(passes.queue, 1)


async def test_a_place_is_kept_for_second_passes():
    passes = Passes(3)
    tasks = {name: passes.add(name) for name in ("a", "b", "c")}
    await turns()
    assert passes.began == ["a", "b"]
    tasks["second"] = passes.add("second")
    await turns()
    assert passes.began == ["a", "b", "second"]
    await passes.end(tasks["second"], "second")
    assert passes.began == ["a", "b", "second"]  # the place is kept again
    await passes.end(tasks["a"], "a")
    assert passes.began[-1] == "c"
    for name in ("b", "c"):
        await passes.end(tasks[name], name)
    assert await has_places(passes.queue, 3)


async def test_who_finds_no_place_in_time_is_told():
    passes = Passes(1)
    holder = passes.add("second holder")
    await turns()
    with pytest.raises(OverloadedError, match=r"took all of 0\.01 s"):
        await passes.add("second", patience_s=0.01)
    await passes.end(holder, "second holder")
    assert passes.began == ["second holder"]
    # Patience is for the place: a pass that has it takes its time.
    slow = passes.add("second slow", patience_s=0.01)
    await asyncio.sleep(0.03)
    await passes.end(slow, "second slow")
    assert await has_places(passes.queue, 1)


async def test_cancelling_a_waiting_or_a_running_pass_frees_its_place():
    passes = Passes(1)
    running, waiting, last = (passes.add(name) for name in ("running", "waiting", "last"))
    await turns()
    waiting.cancel()
    await turns()
    running.cancel()
    await turns()
    # A component cannot be stopped: what has begun keeps its place until it is done.
    assert passes.began == ["running"]
    passes._let_go["running"].set()
    await turns()
    assert passes.began == ["running", "last"]
    # The place is given, and its pass is cancelled before it could begin.
    given = passes.add("given")
    await turns()
    passes._let_go["last"].set()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    given.cancel()
    await asyncio.gather(running, waiting, last, given, return_exceptions=True)
    assert await has_places(passes.queue, 1)


async def test_an_error_in_a_pass_frees_its_place():
    queue = PassQueue(1)

    async def fail():
        raise ComponentError("out of order")

    def defect():
        raise ZeroDivisionError

    with pytest.raises(ComponentError):
        await queue.run(fail, due=0, rank=Rank.ROLLING)
    with pytest.raises(ZeroDivisionError):
        await queue.run(defect, due=0, rank=Rank.SECOND)
    assert await has_places(queue, 1)
