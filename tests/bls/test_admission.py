"""Which recordings begin, wait or are refused, in virtual time."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from conch.bls.admission import FIRST_GUESS, FOR_SHORT, OWN_TIMES, QUIET_S, SHORT, Admission
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
