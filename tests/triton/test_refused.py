"""A component that refuses a START gives the sequence's place in Triton back."""

import logging
import queue

import numpy as np
import pytest
from plain_triton import InferenceRequest, InferenceResponse, Request, UnreadableTensor

from conch.triton.requests import respond

KEY = "a-key-of-this-server"


@pytest.fixture
def called(models, monkeypatch) -> "queue.Queue[InferenceRequest]":
    """Return the calls that a component makes to its own model."""
    calls: queue.Queue[InferenceRequest] = queue.Queue()

    def own(request: InferenceRequest) -> InferenceResponse:
        calls.put(request)
        return InferenceResponse()

    models["encoder"] = own
    monkeypatch.setattr("conch.triton.requests._own_model", lambda: "encoder")
    monkeypatch.setenv("CONCH_COMPONENT_KEY", KEY)
    return calls


def chunk(flags: int, inputs=None) -> Request:
    inputs = {"x": np.ones((1, 500, 3), np.float32)} if inputs is None else inputs
    return Request(inputs, ["y"], stream_id="a stranger's", flags=flags)


def refusals(*requests: Request) -> list[str]:
    return [item.error().message() for item in respond(requests, lambda rows: [])]


def test_a_refused_start_is_ended(called):
    (refused,) = refusals(chunk(flags=1))
    assert refused.startswith("INVALID_REQUEST: components take calls")
    end = called.get(timeout=10)
    assert (end.model, end.stream_id, end.flags) == ("encoder", "a stranger's", 2)
    assert end.parameters == {"component_key": KEY}
    assert end.inputs["x"].shape == (1, 1, 1)


def test_only_a_start_that_does_not_end_by_itself_is(called):
    assert len(refusals(chunk(flags=0), chunk(flags=2), chunk(flags=3), chunk(flags=1))) == 4
    assert called.get(timeout=10).flags == 2
    assert called.empty()


def test_a_start_that_cannot_be_ended_is_refused_all_the_same(called, caplog):
    unreadable = [UnreadableTensor("x", np.zeros((1, 1)))]
    with caplog.at_level(logging.ERROR):
        (refused,) = refusals(chunk(1, unreadable))
    assert refused.startswith("INVALID_REQUEST: components take calls")
    assert "cannot be ended: RuntimeError" in caplog.text
    assert KEY not in caplog.text
