"""What counts as a call, and the deadline of calls."""

import asyncio

import numpy as np
import pytest
from plain_components import PlainComponents
from plain_recognizer import calls_on, runtime_on

from conch.bls.metrics import CALLS
from conch.wire.errors import (
    ComponentError,
    DeadlineError,
    MissingModelError,
    RequestCancelledError,
)


@pytest.mark.parametrize(
    ("error", "is_call"),
    [
        (ComponentError("vad answers with an error"), True),
        (MissingModelError("vad is not loaded", "vad"), False),
        (RequestCancelledError("the client has gone"), False),
    ],
)
def test_only_a_component_that_was_reached_counts_as_called(error, is_call):
    components = PlainComponents()
    components.failing, components.failure = "vad", error
    runtime = runtime_on(components)
    calls = runtime.live_calls(components, "offline")
    with pytest.raises(type(error)):
        asyncio.run(calls("vad", {}, []))
    assert components.calls == ["vad"]
    assert calls.path == (("vad",) if is_call else ())
    assert calls.stages["total"].calls == is_call
    counted = {key[1]: value for key, value in runtime.metrics.drain().items() if key[0] is CALLS}
    assert counted == ({("offline", "vad"): 1.0} if is_call else {})


@pytest.mark.parametrize("slow", ["vad", "ctc_encoder"])
async def test_the_path_has_the_order_in_which_calls_were_made(slow):
    components = PlainComponents()
    components.before = lambda model: asyncio.sleep(0.02 if model == slow else 0)
    calls = calls_on(components)
    await asyncio.gather(
        calls("vad", {"waveform": np.ones(512, np.float32)}, []),
        calls("ctc_encoder", {"waveform": np.ones(512, np.float32)}, []),
    )
    assert calls.path == ("vad", "ctc_encoder")
    assert [stage.calls for stage in calls.stages.values()] == [1, 1, 2]


async def within(deadline_ms, do):
    """Run `do(calls)` within a deadline, with components that wait until they are cancelled."""
    components = PlainComponents()
    components.hold()
    calls = calls_on(components, deadline_ms)
    async with calls.limited():
        return await do(calls)


async def test_a_deadline_that_ends_a_call_names_it():
    with pytest.raises(DeadlineError, match=r"^deadline_ms of 20 ran out in vad$"):
        await within(20, lambda calls: calls("vad", {}, []))


async def test_a_deadline_that_forbids_a_call_names_the_one_not_made():
    async def late(calls):
        while True:  # without a pause, in which the scope's own clock could strike
            calls.deadline.remaining_s("before vad was called")

    with pytest.raises(DeadlineError, match=r"^deadline_ms of 20 ran out before vad was called$"):
        await within(20, late)


@pytest.mark.parametrize("deadline_ms", [0, 60_000])
async def test_a_time_out_of_something_else_is_not_the_requests(deadline_ms):
    async def time_out(calls):
        raise TimeoutError("a socket")

    with pytest.raises(TimeoutError, match="a socket") as failure:
        await within(deadline_ms, time_out)
    assert not isinstance(failure.value, DeadlineError)
