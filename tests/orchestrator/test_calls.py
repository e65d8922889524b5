"""What counts as a call."""

import asyncio

import pytest
from plain_components import PlainComponents

from conch.orchestrator.calls import Calls
from conch.orchestrator.metrics import CALLS, Metrics
from conch.wire.errors import ComponentError, MissingModelError, RequestCancelledError


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

    async def fail(model):
        raise error

    components.before = fail
    metrics = Metrics()
    calls = Calls(components, 0, metrics, "offline")
    with pytest.raises(type(error)):
        asyncio.run(calls("vad", {}, []))
    assert components.calls == ["vad"]
    assert calls.road == (("vad",) if is_call else ())
    assert calls.stages["total"].calls == is_call
    counted = {key[1]: value for key, value in metrics.drain().items() if key[0] is CALLS}
    assert counted == ({("offline", "vad"): 1.0} if is_call else {})
