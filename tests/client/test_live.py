"""What a client's live stream sends, without a server."""

import asyncio

import numpy as np
import pytest

from conch.client.live import AsyncLiveStream, LiveStream
from conch.wire.errors import ServerError
from conch.wire.result import Hypothesis, Transcript

SETTINGS = {"sample_rate": 16_000, "timeout_s": 5.0, "model": "speech", "options": {}}
CHUNK = np.ones(160, np.float32)
NOTHING = Transcript((Hypothesis("", 0.0, 0.0),), (), 0.01, (), {})


def leave_early(sent, fails=lambda request: False):
    """Send a chunk and leave the block by Ctrl-C."""

    def infer(request):
        sent.append(request)
        if fails(request):
            raise ServerError("no server")
        return np.array([NOTHING.to_json().encode()], dtype=np.object_)

    with pytest.raises(KeyboardInterrupt), LiveStream(infer, **SETTINGS) as stream:
        stream.send(CHUNK)
        raise KeyboardInterrupt


def leave_early_async(sent):
    async def infer(request):
        sent.append(request)
        return np.array([NOTHING.to_json().encode()], dtype=np.object_)

    async def main():
        async with AsyncLiveStream(infer, **SETTINGS) as stream:
            await stream.send(CHUNK)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        asyncio.run(main())


@pytest.mark.parametrize("leave", [leave_early, leave_early_async])
def test_a_stream_that_is_left_early_is_abandoned(leave):
    sent = []
    leave(sent)
    first, last = sent
    assert "abandon" not in first.parameters
    assert last.parameters == {"session": first.parameters["session"], "abandon": True}
    assert (last.place.stream_id, last.place.ends) == (first.place.stream_id, True)
    assert last.inputs["WAV_LENS"].item() == 0


def test_a_server_that_cannot_be_told_hides_no_error_of_the_block():
    sent = []
    leave_early(sent, lambda request: request.place.ends)
    assert len(sent) == 2


def test_a_stream_that_never_began_has_nothing_to_abandon():
    sent = []
    with LiveStream(sent.append, **SETTINGS):
        pass
    assert sent == []
