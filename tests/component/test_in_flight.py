"""Rows that run side by side, on counters whose steps are as many as a row wants."""

import random
import threading
import weakref
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, wait

import pytest
from one_by_one import alone

from conch.component.in_flight import InFlight
from conch.wire.errors import ComponentError, DeadlineError

PATIENCE_S = 120


class Steps:
    """Makes steps: each says ten times its number. Knows who made one together with whom."""

    def __init__(self) -> None:
        self.together: list[list[int]] = []
        self.may_go_on = threading.Event()
        self.may_go_on.set()
        self.wrong: set[int] = set()

    def __call__(self, steps: Sequence[int]) -> list[int]:
        assert self.may_go_on.wait(PATIENCE_S)
        if self.wrong & set(steps):
            raise ValueError("a wrong step")
        self.together.append(list(steps))
        return [10 * step for step in steps]


def counting(number: int, count: int):
    said = []
    for _ in range(count):
        said.append((yield number))
    return lambda: sum(said)


def nothing() -> None:
    return None


@pytest.fixture
def steps() -> Steps:
    return Steps()


@pytest.fixture
def in_flight(steps: Steps) -> Iterator[InFlight]:
    made = InFlight(steps, most=3)
    yield made
    steps.may_go_on.set()
    made.close()


def results(futures: list["Future[int]"]) -> list[int]:
    assert not wait(futures, PATIENCE_S).not_done
    return [future.result() for future in futures]


def held(steps: Steps, in_flight: InFlight) -> "Future[int]":
    """Start a row, and return while its first step waits for `may_go_on`."""
    steps.may_go_on.clear()
    first_step = threading.Event()

    def search():
        first_step.set()
        said = yield 9
        return lambda: said

    future = in_flight.start(search(), nothing)
    assert first_step.wait(PATIENCE_S)
    return future


def test_rows_join_and_leave_between_steps(steps, in_flight):
    first = held(steps, in_flight)
    others = [
        in_flight.start(counting(number, count), nothing)
        for number, count in ((1, 1), (2, 4), (3, 2), (4, 1))
    ]
    steps.may_go_on.set()
    assert results([first, *others]) == [90, 10, 80, 60, 40]
    # Three at most; the fourth joins when the first has left, and nobody waits for the longest.
    assert steps.together == [[9], [1, 2, 3], [2, 3, 4], [2], [2]]


def test_many_rows_at_random_lengths_get_what_each_gets_alone(in_flight, steps):
    rng = random.Random(3)
    wanted = [(rng.randint(0, 99), rng.randint(0, 12)) for _ in range(2000)]
    futures = [in_flight.start(counting(*item), nothing) for item in wanted]
    expected = [
        alone(counting(*item), lambda each: [10 * step for step in each]) for item in wanted
    ]
    assert results(futures) == expected
    assert max(map(len, steps.together)) == 3


def test_a_row_that_nobody_waits_for_leaves_at_the_next_step(steps, in_flight):
    first = held(steps, in_flight)
    gone = threading.Event()
    late = in_flight.start(
        counting(1, 10**9), lambda: DeadlineError("too late") if gone.is_set() else None
    )
    beside = in_flight.start(counting(2, 5), nothing)
    steps.may_go_on.set()
    assert results([first, beside]) == [90, 100]
    gone.set()
    assert isinstance(late.exception(PATIENCE_S), DeadlineError)
    assert results([in_flight.start(counting(3, 1), nothing)]) == [30]
    assert steps.together[-1] == [3]


def test_a_row_that_is_late_before_its_first_step_makes_none(steps, in_flight):
    first = held(steps, in_flight)
    late = in_flight.start(counting(1, 3), lambda: DeadlineError("too late"))
    steps.may_go_on.set()
    assert results([first]) == [90]
    assert isinstance(late.exception(PATIENCE_S), DeadlineError)
    assert steps.together == [[9]]


def test_a_step_that_fails_ends_the_row_that_asked_for_it(steps, in_flight):
    first = held(steps, in_flight)
    steps.wrong = {2}
    one, wrong, three = (in_flight.start(counting(number, 2), nothing) for number in (1, 2, 3))
    steps.may_go_on.set()
    assert results([first, one, three]) == [90, 20, 60]
    with pytest.raises(ValueError, match="a wrong step"):
        wrong.result(PATIENCE_S)


def test_a_defect_of_a_row_ends_that_row(in_flight):
    def breaks():
        yield 1
        raise KeyError("a defect")

    def breaks_at_its_end():
        yield 1
        return lambda: 1 // 0

    futures = [in_flight.start(search, nothing) for search in (breaks(), breaks_at_its_end())]
    assert results([in_flight.start(counting(2, 9), nothing)]) == [180]
    assert isinstance(futures[0].exception(PATIENCE_S), KeyError)
    assert isinstance(futures[1].exception(PATIENCE_S), ZeroDivisionError)


def test_results_are_made_beside_the_steps(steps, in_flight):
    """A result that takes long holds up nobody's step."""
    others_are_done = threading.Event()

    def slow():
        said = yield 1
        return lambda: said if others_are_done.wait(PATIENCE_S) else 0

    first = in_flight.start(slow(), nothing)
    last_step = threading.Event()

    def other():
        for _ in range(5):
            yield 2
        last_step.set()
        return lambda: 2

    in_flight.start(other(), nothing)
    assert last_step.wait(PATIENCE_S)
    others_are_done.set()
    assert results([first]) == [10]


def test_closing_lets_what_has_started_end(steps):
    in_flight = InFlight(steps, most=1)
    first = held(steps, in_flight)
    second = in_flight.start(counting(1, 3), nothing)
    closing = threading.Thread(target=in_flight.close)
    closing.start()
    steps.may_go_on.set()
    closing.join(PATIENCE_S)
    assert results([first, second]) == [90, 30]
    with pytest.raises(ComponentError, match="closing"):
        in_flight.start(counting(1, 1), nothing)


def test_a_search_without_a_step_has_its_result(in_flight):
    def at_once():
        yield from ()
        return lambda: 7

    assert results([in_flight.start(at_once(), nothing) for _ in range(9)]) == [7] * 9


def test_an_ended_row_is_not_kept_until_the_next_one(in_flight):
    result = in_flight.start(counting(1, 2), nothing)
    wait([result], PATIENCE_S)
    is_freed = threading.Event()
    weakref.finalize(result, is_freed.set)
    del result
    assert is_freed.wait(PATIENCE_S)


def test_rows_that_end_together_make_room_for_those_that_wait(in_flight):
    rows = [in_flight.start(counting(number, 1), nothing) for number in range(20)]
    assert results(rows) == [10 * number for number in range(20)]


def test_a_reason_that_cannot_be_told_ends_its_row_alone(steps, in_flight):
    def breaks() -> None:
        raise OSError("the client cannot be asked")

    first = held(steps, in_flight)
    broken = in_flight.start(counting(1, 2), breaks)
    steps.may_go_on.set()
    assert results([first, in_flight.start(counting(2, 2), nothing)]) == [90, 40]
    assert isinstance(broken.exception(PATIENCE_S), OSError)


def test_who_waits_for_a_place_leaves_too(steps, in_flight):
    first = held(steps, in_flight)
    gone = threading.Event()
    running = [
        in_flight.start(
            counting(number, 10**9), lambda: ComponentError("over") if gone.is_set() else None
        )
        for number in (1, 2, 3)
    ]
    left = in_flight.start(counting(4, 1), lambda: DeadlineError("too late"))
    steps.may_go_on.set()
    assert isinstance(left.exception(PATIENCE_S), DeadlineError)
    gone.set()
    assert results([first]) == [90]
    assert not wait(running, PATIENCE_S).not_done
