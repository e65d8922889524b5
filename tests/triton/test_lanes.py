"""The threads of an entry point."""

import threading

import pytest

from conch.launcher.config import BLS_THREADS
from conch.recognition.config import RecognitionConfig
from conch.triton.entry_point import Lanes
from conch.triton.messages import THREADS


@pytest.mark.parametrize("passes", [1, 4, 500])
@pytest.mark.parametrize("most", [4, 5, 60, 100])
def test_the_lanes_share_the_calls(most, passes):
    lanes = Lanes(most, passes)
    named = {lanes.live, lanes.passes, lanes.ends, lanes.recordings, lanes.post}
    sizes = [lane._max_workers for lane in named]
    assert sum(sizes) == most
    assert min(sizes) >= 1
    assert lanes.close(60)


def test_full_lanes_hold_up_no_other():
    lanes, free = Lanes(8, 2), threading.Event()
    held = [lanes.recordings.submit(free.wait, 20) for _ in range(50)]
    held += [lanes.passes.submit(free.wait, 20) for _ in range(50)]
    held += [lanes.post.submit(free.wait, 20) for _ in range(50)]
    assert lanes.live.submit(int).result(20) == lanes.ends.submit(int).result(20) == 0
    free.set()
    for future in held:
        future.result(20)
    assert lanes.close(60)


def test_the_launchers_threads_carry_all_calls_and_answers():
    assert RecognitionConfig().max_calls_in_flight + THREADS <= BLS_THREADS


def test_a_call_that_never_ends_is_left_behind():
    lanes, free = Lanes(8, 1), threading.Event()
    lanes.recordings.submit(free.wait)
    assert not lanes.close(0.01)
    free.set()
    assert lanes.close(60)
