"""The order of requests, and that nobody is worse off than with equal shares."""

import random

import pytest

from conch.bls.admission import FairOrder


@pytest.fixture
def order() -> FairOrder:
    return FairOrder()


def test_of_equal_requests_the_oldest_goes_first(order):
    shares = [order.enter(10.0) for _ in range(5)]
    assert sorted(shares, key=lambda share: share.key) == shares
    assert [order.ahead_s(share) for share in shares] == [0, 10, 20, 30, 40]
    order.serve(shares[0], 10.0)
    order.leave(shares[0])
    late = order.enter(10.0)  # equal shares would have given each of the others two seconds by now
    assert order.ahead_s(late) == 40
    assert order.left_s == 50


def test_a_short_request_goes_before_what_is_left_of_a_long_one(order):
    long = order.enter(3600.0)
    order.serve(long, 100.0)
    short = order.enter(5.0)
    assert short.key < long.key
    assert order.ahead_s(short) == 0
    assert order.ahead_s(long) == 5
    # Of a long one that is nearly done, less is left.
    order.serve(short, 5.0)
    order.leave(short)
    order.serve(long, 3599.0)
    assert order.enter(5.0).key > long.key


def test_work_is_counted_once_and_up_to_the_size(order):
    share = order.enter(10.0)
    assert order.serve(share, 4.0) == 4.0
    assert order.serve(share, 4.0) == 0.0
    assert order.serve(share, 3.0) == 0.0
    assert order.serve(share, 99.0) == 6.0
    assert share.left_s == 0.0


def test_who_gives_up_no_longer_counts(order):
    stays, goes = order.enter(10.0), order.enter(10.0)
    order.leave(goes)
    assert len(order) == 1
    order.serve(stays, 5.0)  # all of it is its own share
    assert order.enter(5.0 + 1e-6).key > stays.key
    assert order.enter(5.0 - 1e-6).key < stays.key


def test_who_gives_up_after_its_end_in_virtual_time_does_not_speed_it_up(order):
    late, others = order.enter(1.0), [order.enter(100.0) for _ in range(4)]
    order.serve(others[0], 55.0)  # out of order: 11 s of each of the others, and all of the first
    order.leave(late)
    at = order.enter(0.0).key[0]
    order.serve(others[1], 10.0)  # between the four, as the last one asks for nothing
    assert order.enter(0.0).key[0] == pytest.approx(at + 2.5)


def test_who_is_done_keeps_its_part_of_virtual_time(order):
    done, other = order.enter(1.7), order.enter(100.0)
    for until_s in (0.1, 0.4, 1.7):  # in floating point 0.1 + 0.3 + 1.3 is less
        order.serve(done, until_s)
    assert done.left_s == 0.0
    order.leave(done)
    order.serve(other, 0.5)
    assert order.enter(0.0).key[0] == pytest.approx((1.7 + 0.5) / 2)


def test_an_empty_order_owes_nothing(order):
    for size in (5.0, 3600.0):
        share = order.enter(size)
        order.serve(share, size)
        order.leave(share)
    assert order.left_s == 0
    first = order.enter(7.0)
    assert order.ahead_s(first) == 0


@pytest.mark.parametrize("seed", range(20))
def test_no_request_ends_later_than_with_equal_shares(seed):
    """Friedman and Henderson's theorem: one server that does the work of the first in line."""
    drawn = random.Random(seed)
    arrivals = sorted(
        (round(drawn.uniform(0, 60), 1), drawn.choice((1, 2, 5, 30))) for _ in range(20)
    )
    step = 0.05
    fair, shared = _ends_in_order(arrivals, step), _ends_with_equal_shares(arrivals, step)
    for end, other in zip(fair, shared, strict=True):
        assert end <= other + 0.5  # steps, and what arrives within one
    assert sum(fair) < sum(shared)


def _ends_in_order(arrivals, step):
    order, now = FairOrder(), 0.0
    ends, inside, coming = [0.0] * len(arrivals), {}, list(enumerate(arrivals))
    while coming or inside:
        while coming and coming[0][1][0] <= now:
            index, (_, size) = coming.pop(0)
            inside[index] = order.enter(float(size))
        now += step
        if inside:
            index = min(inside, key=lambda number: inside[number].key)
            order.serve(inside[index], inside[index].served_s + step)
            if inside[index].left_s < 1e-9:
                order.leave(inside.pop(index))
                ends[index] = now
    return ends


def _ends_with_equal_shares(arrivals, step):
    now = 0.0
    ends, left, coming = [0.0] * len(arrivals), {}, list(enumerate(arrivals))
    while coming or left:
        while coming and coming[0][1][0] <= now:
            index, (_, size) = coming.pop(0)
            left[index] = float(size)
        now += step
        for index in list(left):
            left[index] -= step / (len(left) or 1)
        for index in [number for number, seconds in left.items() if seconds < 1e-9]:
            del left[index]
            ends[index] = now
    return ends


def test_those_who_give_up_leave_nothing_behind_however_many_they_are(order):
    stays = order.enter(3600.0)
    for _ in range(1000):
        order.leave(order.enter(7200.0))
        assert len(order._ends) + len(order._gone) < 10
    assert order.is_first(stays)
