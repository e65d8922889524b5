"""Deadlines and cancellation."""

import numpy as np
import pytest
import tritonclient.grpc as grpc
from infer_inputs import inputs_of
from waiting import wait_until

from conch.client import Client
from conch.wire.errors import DeadlineError

pytestmark = pytest.mark.server


def test_a_deadline_is_kept_and_no_call_follows(server, waveform, executions):
    with Client(server.http_url) as client:
        client.transcribe(waveform)
        before = executions("moonshine_decoder")[0]
        with pytest.raises(DeadlineError, match="deadline_ms of 20 ran out"):
            client.transcribe(waveform, deadline_ms=20)
        # The encoder's queue is served in order: behind this request nothing of the late one waits.
        client.transcribe(waveform)
        # Triton counts a call after its answer.
        wait_until(lambda: executions("moonshine_decoder")[0] > before)
        assert executions("moonshine_decoder")[0] == before + 1


def test_a_generous_deadline_changes_nothing(server, waveform):
    with Client(server.http_url) as client:
        expected = client.transcribe(waveform).text
        assert client.transcribe(waveform, deadline_ms=60_000).text == expected


def test_a_cancelled_grpc_request_makes_no_further_call(server, waveform, executions):
    pause = np.zeros(4 * 16_000, np.float32)
    long = np.concatenate([waveform, pause] * 60)[np.newaxis]
    before, inputs = executions("moonshine_encoder")[0], inputs_of(grpc, WAV=long)
    errors: list[Exception | None] = []
    with grpc.InferenceServerClient(server.grpc_url) as client:
        call = client.async_infer("speech", inputs, lambda result, error: errors.append(error))
        wait_until(lambda: executions("moonshine_encoder")[0] > before)
        call.cancel()
        wait_until(lambda: bool(errors))
    assert "CANCELLED" in str(errors[0])
    with Client(server.http_url) as client:
        client.transcribe(waveform)
    made = executions("moonshine_encoder")[0] - before
    assert made < 60, "as many segments as were in flight, not those of the whole recording"
