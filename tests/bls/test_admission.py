"""Which recordings begin, wait or are refused: their order, and the speed that they show."""

import asyncio
import random
from contextlib import AsyncExitStack

import pytest

from conch.bls.admission import (
    CROWD,
    FIRST_GUESS,
    FOR_SHORT,
    OWN_TIMES,
    PERIOD_S,
    QUIET_S,
    SHORT,
    Admission,
    FairOrder,
    ServerSpeed,
)
from conch.bls.metrics import REFUSED, ROOM_SECONDS, Metrics
from conch.recognition.config import RecognitionConfig
from conch.wire.errors import AudioError, OverloadedError

pytestmark = pytest.mark.virtual_time


def admission(**limits) -> Admission:
    return Admission(RecognitionConfig(**limits), Metrics())


async def use(admission: Admission, audio_s: float, takes_s: float, deadline_s=None) -> float:
    """Recognise a recording; return how long it waited."""
    now = asyncio.get_running_loop().time
    asked = now()
    async with admission.begun(audio_s, deadline_s):
        waited_s = now() - asked
        await asyncio.sleep(takes_s)
    return waited_s


async def test_what_has_no_room_waits_and_the_oldest_of_equals_goes_first():
    one = admission(max_audio_in_flight_s=100.0)
    waits = await asyncio.gather(*(use(one, 40.0, 1.0) for _ in range(5)))
    assert one.audio_s == 0.0
    assert one._metrics.drain()[ROOM_SECONDS, ()] == pytest.approx(sum(waits))
    assert waits == [0, 0, 1, 1, 2]


async def test_a_short_recording_does_not_wait_until_one_of_the_longest_is_done():
    one = admission(max_audio_in_flight_s=1000.0, max_wait_s=1000.0)
    long = asyncio.create_task(use(one, 1000.0, 60.0))
    await asyncio.sleep(1)
    waiting = asyncio.create_task(use(one, 1000 * SHORT + 1, 1.0))
    short = await use(one, 1000 * SHORT, 1.0)
    await long
    assert (short, await waiting) == (0.0, 59.0)
    assert 0 < SHORT <= FOR_SHORT


async def test_at_the_limit_a_request_begins_and_beyond_it_is_wrong():
    one = admission(max_audio_in_flight_s=100.0)
    await use(one, 100.0, 0.0)
    with pytest.raises(AudioError, match=r"has 100\.1 s of audio .* at most 100 s \(parameter"):
        await use(one, 100.1, 0.0)


async def test_who_would_wait_too_long_is_refused_at_once_and_told_when_to_come():
    one = admission(max_wait_s=30.0)
    async with AsyncExitStack() as stack:
        for _ in range(61):  # 610 s are 30.5 s of work at the first guess
            share = await stack.enter_async_context(one.begun(10.0, None))
        before = asyncio.get_running_loop().time()
        with pytest.raises(OverloadedError, match="would wait for") as refused:
            await use(one, 10.0, 0.0)
        assert asyncio.get_running_loop().time() == before
        assert refused.value.retry_after_s == 16
        one.served(share, 10.0)  # the queue is as long as it may be: this one waits 30 s
        await use(one, 10.0, 0.0)
    assert one._metrics.drain()[REFUSED, ("wait",)] == 1


async def test_a_deadline_is_the_patience_of_its_request():
    one = admission(max_wait_s=30.0)
    async with one.begun(100.0, None):  # five seconds
        with pytest.raises(OverloadedError) as refused:
            await use(one, 101.0, 0.0, deadline_s=2.0)
        assert refused.value.retry_after_s == 3
        await use(one, 101.0, 0.0, deadline_s=5.0)
        # Nothing goes before a short one.
        await use(one, 1.0, 0.0, deadline_s=0.1)


async def test_hours_may_wait_longer_than_seconds():
    one = admission(max_audio_in_flight_s=1e6, max_wait_s=1.0)
    async with AsyncExitStack() as stack:
        for _ in range(OWN_TIMES + 1):
            await stack.enter_async_context(one.begun(3600.0, None))
        with pytest.raises(OverloadedError):
            await use(one, 3600.0, 0.0)
    assert 3600 / FIRST_GUESS > 1


async def test_who_finds_no_room_in_time_is_told():
    one = admission(max_audio_in_flight_s=100.0, max_wait_s=10.0)
    stuck = asyncio.create_task(use(one, 100.0, 60.0))
    await asyncio.sleep(1)
    with pytest.raises(OverloadedError, match=r"no room for 100\.0 s of audio within 40 s"):
        await use(one, 100.0, 0.0)
    assert asyncio.get_running_loop().time() == 41
    assert one._metrics.drain()[REFUSED, ("room",)] == 1
    await stuck
    assert one.audio_s == 0


@pytest.mark.parametrize("is_waiting", [True, False])
async def test_a_client_that_leaves_frees_its_room(is_waiting):
    one = admission(max_audio_in_flight_s=100.0)
    first, second, third = (asyncio.create_task(use(one, 100.0, 5.0)) for _ in range(3))
    await asyncio.sleep(1)
    (second if is_waiting else first).cancel()
    await asyncio.gather(first, second, third, return_exceptions=True)
    assert one.audio_s == 0
    assert len(one._order) == 0
    assert await third == (5.0 if is_waiting else 6.0)


async def test_a_long_recording_is_not_first_while_short_ones_come_and_a_while_after():
    one = admission()
    async with one.begun(3600.0, None) as long:
        assert one.is_first(long)
        async with one.begun(5.0, None) as short:
            assert one.is_first(short)
            assert not one.is_first(long)
        assert not one.is_first(long)
        async with one.begun(3600.0, None) as second:  # of equals the oldest
            await asyncio.sleep(QUIET_S + 1)
            assert one.is_first(long)
            assert not one.is_first(second)


def test_requests_and_bytes_have_limits_of_their_own():
    one = admission(max_requests_in_flight=3, max_bytes_in_flight=100)
    with one.arrived(75):  # at the limit
        with pytest.raises(OverloadedError, match="75 bytes of audio and this one 1; ") as refused:
            one.arrived(1).__enter__()
        assert refused.value.retry_after_s == 1
        full = pytest.raises(OverloadedError, match="3 requests are in flight")
        with one.arrived(0), one.arrived(0), full:
            one.arrived(0).__enter__()
    with one.arrived(101):  # alone
        pass
    refusals = one._metrics.drain()
    assert refusals[REFUSED, ("bytes",)] == refusals[REFUSED, ("requests",)] == 1


def test_recordings_and_live_chunks_share_the_bytes_and_keep_a_quarter_each():
    one = admission(max_bytes_in_flight=100)
    full = pytest.raises(OverloadedError, match="at most 75 of them in recordings or in live chunk")
    with one.holding(75):
        with full:
            one.holding(1).__enter__()
        with one.arrived(5), one.arrived(20), full:
            one.arrived(1).__enter__()
    # A recording that is alone has all.
    with one.arrived(100), one.holding(25), full:
        one.holding(1).__enter__()
    with one.arrived(5), one.arrived(45), one.holding(50), full:
        one.holding(1).__enter__()
    assert one._metrics.drain()[REFUSED, ("bytes",)] == 4
    with one.holding(75):  # all have been given back
        pass


async def test_the_crowd_of_the_first_seconds_teaches_the_speed():
    """The server is ten times as fast as the first guess."""
    one = admission()

    async def worker():
        for _ in range(20):
            await use(one, 10.0, 10.0 / FIRST_GUESS / 10 * 8)

    await asyncio.gather(*(worker() for _ in range(8)))
    assert one._speed.audio_per_s > 5 * FIRST_GUESS


async def test_those_who_leave_while_they_wait_are_forgotten():
    one = admission(max_audio_in_flight_s=100.0, max_wait_s=1000.0)
    stays = asyncio.create_task(use(one, 100.0, 50.0))
    await asyncio.sleep(0)
    first = asyncio.create_task(use(one, 20.0, 1.0))
    for _ in range(100):
        waiting = asyncio.create_task(use(one, 90.0, 1.0))
        await asyncio.sleep(0.01)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
    assert len(one._room._waiting) == 1
    assert (await stays, await first) == pytest.approx((0.0, 50.0))


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


def serve(speed: ServerSpeed, rate: float, seconds: float, now: float, in_flight: int) -> float:
    """Serve audio in steps of a tenth of a second; return the time afterwards."""
    speed.began(now)
    for _ in range(round(seconds * 10)):
        now += 0.1
        speed.served(rate / 10, in_flight, now)
    return now


def test_a_crowd_shows_the_speed():
    speed = ServerSpeed()
    serve(speed, 50.0, 20 * PERIOD_S, 0.0, CROWD)
    assert speed.audio_per_s == pytest.approx(50.0, rel=0.05)
    serve(speed, 5.0, 20 * PERIOD_S, 1000.0, 3 * CROWD)
    assert speed.audio_per_s == pytest.approx(5.0, rel=0.1)
    assert speed.seconds_for(10.0) == pytest.approx(2.0, rel=0.1)


def test_a_few_show_rather_what_it_does_at_least():
    speed = ServerSpeed()
    serve(speed, FIRST_GUESS / 4, 3.5 * PERIOD_S, 0.0, 1)
    assert FIRST_GUESS * 0.9 < speed.audio_per_s < FIRST_GUESS
    serve(speed, 80.0, 10 * PERIOD_S, 100.0, CROWD - 1)
    assert speed.audio_per_s == pytest.approx(80.0, rel=0.1)


def test_segments_that_are_done_at_once_are_no_speed():
    """A long recording gives a text of 120 s every 12 s."""
    speed = ServerSpeed()
    speed.began(0.0)
    found = []
    for now in range(12, 1200, 12):
        for _ in range(4):
            speed.served(30.0, 1, float(now))
        found.append(speed.audio_per_s)
    assert found[-1] == pytest.approx(10.0, rel=0.3)
    assert max(found) <= FIRST_GUESS


def test_pauses_do_not_count():
    speed = ServerSpeed()
    now = 0.0
    for _ in range(100):
        now = serve(speed, 60.0, 0.5, now, CROWD)
        speed.paused(now)
        now += 60.0
    assert speed.audio_per_s == pytest.approx(60.0, rel=0.05)
