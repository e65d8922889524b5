"""Whose call is next at a component, in virtual time."""

import asyncio

import numpy as np
import pytest
from plain_components import PlainComponents

from conch.bls.call import Call, Deadline
from conch.bls.concurrency import OLDEST_OF, PART, ConcurrencyLimits, RecordingTurns
from conch.bls.metrics import TURN_SECONDS, Metrics
from conch.recognition import RecognitionConfig, own_components
from conch.wire.errors import ComponentError, DeadlineError

pytestmark = pytest.mark.virtual_time

WAVEFORM = {"waveform": np.ones(512, np.float32)}


class Server:
    """A component whose calls take a second each; `began` has the names of calls in order."""

    def __init__(self, places: int) -> None:
        self.metrics = Metrics()
        config = RecognitionConfig(max_encoder_calls=places, max_decoder_calls=places)
        self.limits = ConcurrencyLimits(config, own_components(), self.metrics)
        self.components = PlainComponents()
        self.components.before = self.take_a_second
        self.began: list[str] = []

    async def take_a_second(self, model: str) -> None:
        name = asyncio.current_task().get_name()
        self.began.append(name)
        await asyncio.sleep(1)

    def recording(
        self, key: tuple[float, int], calls: int, deadline_ms=0, is_first=lambda: True
    ) -> list[asyncio.Task]:
        turns = RecordingTurns(self.limits)
        turns.begin(key, is_first)
        return [asyncio.create_task(self.call(turns, deadline_ms)) for _ in range(calls)]

    async def call(self, turns, deadline_ms=0) -> float:
        """Call the VAD; return when the call was done."""
        now = asyncio.get_running_loop().time
        deadline = Deadline(deadline_ms, now)
        call = Call("vad", WAVEFORM, ("speech_probs",), deadline=deadline)
        await turns(call, self.components.call)
        return now()


async def test_the_recording_with_the_lowest_key_goes_first_and_equals_in_the_order_of_asking():
    server = Server(2)
    late = server.recording((9.0, 0), 3)
    await asyncio.sleep(0.5)
    early = server.recording((1.0, 1), 2)
    await asyncio.gather(*late, *early)
    # Half of the places is all that one recording takes: the other one begins at once.
    late, early = [task.result() for task in late], [task.result() for task in early]
    assert early == [1.5, 2.5]
    assert late == [1.0, 2.0, 3.0]


async def test_of_one_recording_the_earliest_segment_goes_first():
    server = Server(2)
    turns = RecordingTurns(server.limits)
    turns.begin((1.0, 0), lambda: True)
    done = []

    async def segment(start: float) -> None:
        PART.set(start)
        await server.call(turns)
        done.append(start)

    # One call at a time is half of the places.
    calls = [asyncio.create_task(segment(start)) for start in (30.0, 20.0, 10.0)]
    await asyncio.sleep(0.5)
    calls.append(asyncio.create_task(segment(5.0)))
    await asyncio.sleep(0.1)
    calls[2].cancel()
    await asyncio.gather(*calls, return_exceptions=True)
    assert done == [30.0, 5.0, 20.0]


async def test_a_recording_does_not_wait_behind_the_segments_of_another():
    server = Server(1)
    long = server.recording((3600.0, 0), 5)
    await asyncio.sleep(0.5)
    (short,) = server.recording((5.0, 1), 1)
    done = await short
    await asyncio.gather(*long)
    assert (done, long[-1].result()) == (2.0, 6.0)


async def test_a_recording_that_was_overtaken_leaves_places_for_the_next():
    server = Server(8)
    now = asyncio.get_running_loop().time
    long = server.recording((3600.0, 0), 14, is_first=lambda: not 1.5 < now() < 4.5)
    await asyncio.gather(*long)
    # Half of the places while it is first, a quarter while it is not.
    assert [task.result() for task in long] == [1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 4, 4, 5, 5]


async def test_a_call_that_gives_up_before_its_turn_leaves_the_others_theirs():
    server = Server(2)
    first, second, third = server.recording((1.0, 0), 3)
    await asyncio.sleep(0.5)
    second.cancel()
    assert (await third, await first) == (2.0, 1.0)


async def test_live_calls_wait_for_nobody_and_recordings_wait_for_them():
    server = Server(2)
    recording = server.recording((1.0, 0), 2)
    await asyncio.sleep(0.5)
    live = server.limits.without_waiting
    done = await asyncio.gather(*(server.call(live) for _ in range(4)))
    await asyncio.gather(*recording)
    live, recording = done, [task.result() for task in recording]
    assert live == [1.5] * 4
    # One of a recording's calls may run at any time, however many streams there are.
    assert recording == [1.0, 2.0]


async def test_short_recordings_without_end_do_not_hold_up_a_long_one():
    server = Server(1)
    long = server.recording((3600.0, 0), 3)
    ends = []

    async def shorts():
        for number in range(1, 1000):
            (short,) = server.recording((5.0, number), 1)
            await asyncio.sleep(0)
            await short

    busy = [asyncio.create_task(shorts()) for _ in range(2)]
    for task in long:
        ends.append(await task)
    for task in busy:
        task.cancel()
    assert ends[-1] <= 3 * OLDEST_OF


@pytest.mark.parametrize("is_running", [True, False])
async def test_a_call_that_is_cancelled_frees_its_place(is_running):
    server = Server(1)
    first, second, third = (server.recording((1.0, number), 1)[0] for number in range(3))
    await asyncio.sleep(0.5)
    (first if is_running else second).cancel()
    # A component cannot be stopped, so what runs keeps its place to its end.
    assert await third == (3.0 if is_running else 2.0)


async def test_a_failing_call_frees_its_place():
    server = Server(1)
    server.components.failing = "vad"
    (failing,) = server.recording((1.0, 0), 1)
    with pytest.raises(ComponentError):
        await failing
    server.components.failing = None
    assert (await server.recording((2.0, 1), 1)[0]) == 2.0


async def test_the_wait_counts_and_is_taken_off_the_time_that_a_call_has():
    server = Server(1)
    calls = [*server.recording((1.0, 0), 1, 10_000), *server.recording((2.0, 1), 1, 10_000)]
    await asyncio.gather(*calls)
    timeouts_s, counted = server.components.timeouts_s, server.metrics.drain()
    assert timeouts_s == [10.0, 9.0]
    assert counted[TURN_SECONDS, ("vad",)] == 1.0


async def test_a_call_whose_time_ends_while_it_waits_is_not_made():
    server = Server(1)
    (first,) = server.recording((1.0, 0), 1)
    (late,) = server.recording((2.0, 1), 1, 500)
    await asyncio.gather(first)
    with pytest.raises(DeadlineError, match="deadline_ms of 500 ran out before vad was called"):
        await late
    began, ended_at = server.began, await server.recording((3.0, 2), 1)[0]
    assert len(began) == 2  # the first and the last
    assert ended_at == 2.0


async def test_calls_that_leave_while_they_wait_are_forgotten():
    server = Server(1)
    (first,) = server.recording((1.0, 0), 1)
    await asyncio.sleep(0.1)
    gone = [call for number in range(50) for call in server.recording((2.0, number), 1)]
    (last,) = server.recording((1.5, 0), 1)
    await asyncio.sleep(0.1)
    for call in gone:
        call.cancel()
    await asyncio.sleep(0)
    assert len(server.limits.at("vad")._waiting) == 1
    assert (await first, await last) == (1.0, 2.0)


def test_recordings_leave_places_where_rows_are_in_flight_together():
    limits = ConcurrencyLimits(RecognitionConfig(), own_components(), Metrics())
    most = own_components()["moonshine_decoder"].in_flight
    first, other = (
        limits.most_of_one("moonshine_decoder", is_first=is_first) for is_first in (True, False)
    )
    assert 0 < other < first < most
    few = ConcurrencyLimits(RecognitionConfig(max_decoder_calls=1), own_components(), Metrics())
    assert few.most_of_one("moonshine_decoder", is_first=True) >= 1
