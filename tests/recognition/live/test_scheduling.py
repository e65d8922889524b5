"""Which pass has the next place."""

import asyncio

import pytest

from conch.recognition.live.scheduling import (
    LATE_PASS,
    LATE_STEP,
    LONGEST,
    MOST_AT_PAUSES,
    MOST_ROLLING,
    PATIENCE,
    PERIOD_S,
    PROMPT_PASS,
    PROMPT_STEP,
    STRETCH,
    Allowed,
    LoadMeter,
    Pace,
    PassQueue,
    Rank,
)
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


LATE, BETWEEN, PROMPT = LATE_STEP + 0.01, (LATE_STEP + PROMPT_STEP) / 2, PROMPT_STEP - 0.01


def after(pace: Pace, *periods: tuple[float | None, float | None]) -> Pace:
    for period in periods:
        pace = pace.after_period(*period)
    return pace


@pytest.mark.parametrize("period", [(LATE, None), (None, LATE_PASS + 0.01), (PROMPT, 2.0)])
def test_late_steps_and_late_passes_make_passes_rarer(period):
    assert after(Pace(), period).stretch == pytest.approx(STRETCH)
    assert after(Pace(), *[period] * 40).stretch == LONGEST


def test_steps_that_are_twice_as_late_count_twice():
    assert after(Pace(), (2 * LATE, None)).stretch == pytest.approx(STRETCH**2)


def test_passes_come_back_after_some_periods_with_room_in_a_row():
    stretched = Pace(4.0)
    room = (PROMPT, PROMPT_PASS - 0.01)
    patient = after(stretched, *[room] * PATIENCE)
    assert patient.stretch == 4.0
    relaxed = after(patient, room)
    assert 1.0 < relaxed.stretch < 4.0
    assert after(relaxed, room).stretch < relaxed.stretch  # without waiting again
    # A period that is neither late nor prompt begins the count again.
    for interruption in ((BETWEEN, None), (None, (PROMPT_PASS + LATE_PASS) / 2), (LATE, None)):
        again = after(patient, interruption)
        assert after(again, *[room] * PATIENCE).stretch == again.stretch
    assert after(stretched, *[room] * 200).stretch == 1.0


def test_a_constant_load_between_the_thresholds_changes_nothing():
    pace = Pace(3.0)
    for _ in range(50):
        pace = pace.after_period(BETWEEN, (PROMPT_PASS + LATE_PASS) / 2)
        assert pace.stretch == 3.0


def test_a_load_that_follows_the_passes_settles():
    """Steps are as late as passes are many: the stretch stays where they are not late."""
    pace, stretches = Pace(), []
    for _ in range(300):
        pace = pace.after_period(1.2 / pace.stretch, None)
        stretches.append(pace.stretch)
    settled = stretches[50:]
    assert min(settled) == max(settled)
    assert PROMPT_STEP <= 1.2 / settled[0] <= LATE_STEP


def test_levels_and_intervals():
    levels = [
        (1.0, Allowed.ROLLING, 1280),
        (MOST_ROLLING, Allowed.ROLLING, 6400),
        (MOST_ROLLING + 0.1, Allowed.PAUSES, 0),
        (MOST_AT_PAUSES, Allowed.PAUSES, 0),
        (MOST_AT_PAUSES + 0.1, Allowed.ENDPOINTS, 0),
    ]
    for stretch, allowed, interval_ms in levels:
        pace = Pace(stretch)
        assert (pace.allowed("normal"), pace.interval_ms(1280, "normal")) == (allowed, interval_ms)


def test_a_priority_is_a_share():
    pace = Pace(4.0)
    intervals = [pace.interval_ms(1000, item) for item in ("high", "normal", "low")]
    assert intervals == [2500, 4000, 0]
    assert pace.allowed("low") == Allowed.PAUSES
    # Nobody has passes more often than asked for.
    assert Pace().interval_ms(1000, "high") == 1000


def test_load_decides_once_a_period_by_the_slowest_tenth():
    load = LoadMeter(step_s=0.64)
    for index in range(10):
        load.step_took(0.64 if index == 0 else 0.01, now=index * PERIOD_S / 10)
    assert load.pace == Pace()  # the period is not over
    load.step_took(0.01, now=PERIOD_S)
    # One of eleven steps is late: 9 of 10 are prompt.
    assert load.pace == Pace(1.0, periods_with_room=1)
    load.step_took(0.64, now=1.5 * PERIOD_S)
    load.step_took(0.64, now=2 * PERIOD_S)
    assert load.pace == Pace(STRETCH**2)
    load.step_took(0.01, now=3 * PERIOD_S)
    assert load.pace == Pace(STRETCH**2, periods_with_room=1)  # what was before is forgotten


def test_load_takes_the_mean_time_of_passes_as_a_share_of_their_interval():
    load = LoadMeter(step_s=0.64)
    load.pass_took(0.1, 2.0, now=0.0)
    load.pass_took(3.9, 2.0, now=PERIOD_S)
    assert load.pace.stretch == pytest.approx(STRETCH)
    load.pass_took(0.1, 2.0, now=1.5 * PERIOD_S)
    load.pass_took(2.9, 2.0, now=2 * PERIOD_S)
    assert load.pace == Pace(STRETCH)


def test_what_nobody_uses_has_room():
    load = LoadMeter(step_s=0.64)
    load.pace = Pace(LONGEST)
    load.step_took(0.01, now=0.0)
    load.step_took(0.01, now=1000 * PERIOD_S)
    assert load.pace.stretch == 1.0
