"""What a model.py makes: a model that Triton initialises, calls and finalises."""

import gc
import json
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass

import numpy as np
import pytest
from plain_triton import Request

from conch.bls.metrics import COMPONENT_STREAMS
from conch.component import Outputs, Row
from conch.component.in_flight import Reason
from conch.triton.models import bls_model, component_model, in_flight_model, stream_model

ARGS = {
    "model_config": json.dumps({"parameters": {"factor": {"string_value": "3"}}}),
    "model_name": "scaled",
    "model_instance_name": "scaled_0",
}


@dataclass(frozen=True)
class ScaleConfig:
    factor: int = 2


class Scale:
    def __init__(self, config: ScaleConfig) -> None:
        self.factor, self.is_open = config.factor, True

    def __call__(self, rows: Sequence[Row], /) -> list[Outputs]:
        return [{"y": row.inputs["x"] * self.factor} for row in rows]

    def __len__(self) -> int:
        return 4

    def close(self) -> None:
        self.is_open = False

    def start(self, row: Row, reason: Reason, /) -> "Future[Outputs]":
        answer: Future[Outputs] = Future()
        answer.set_result(self([row])[0])
        return answer


@pytest.mark.parametrize("made", [component_model, stream_model])
def test_a_model_answers_by_the_component_of_its_parameters(made):
    model = made(Scale, ScaleConfig)()
    model.initialize(ARGS)
    (response,) = model.execute([Request({"x": np.array([[1.0]], np.float32)}, ["y"])])
    assert response.arrays()["y"].tolist() == [[3.0]]
    assert hasattr(model, "finalize") == (made is stream_model)
    if made is stream_model:
        model.finalize()


def test_a_model_with_streams_publishes_their_number_and_closes_them(monkeypatch):
    published = []
    monkeypatch.setattr(
        "conch.triton.metrics.MetricsPublisher.__init__",
        lambda self, *args, gauges, **more: published.append(gauges[COMPONENT_STREAMS]()),
    )
    monkeypatch.setattr("conch.triton.metrics.MetricsPublisher.close", lambda self: None)
    model = stream_model(Scale, ScaleConfig)()
    model.initialize(ARGS)
    assert (published, model.component.is_open) == ([4], True)
    model.finalize()
    assert not model.component.is_open


def test_a_model_whose_rows_are_in_flight_answers_each_request_by_itself():
    model = in_flight_model(Scale, ScaleConfig)()
    model.initialize(ARGS)
    request = Request({"x": np.array([[1.0]], np.float32)}, ["y"])
    assert model.execute([request]) is None
    assert request.sender.sent.get_nowait().arrays()["y"].tolist() == [[3.0]]
    model.finalize()
    assert not model.component.is_open


@pytest.mark.parametrize("made", [component_model, stream_model, in_flight_model])
def test_what_loading_has_freed_is_given_back(made, monkeypatch):
    there = []
    monkeypatch.setattr("conch.triton.models.trim", lambda: there.append("trimmed"))

    def loaded(config: ScaleConfig) -> Scale:
        there.append("loaded")
        return Scale(config)

    model = made(loaded, ScaleConfig)()
    model.initialize(ARGS)
    assert there == ["loaded", "trimmed"]
    if made is not component_model:
        model.finalize()


def test_what_was_loaded_is_frozen_if_asked_for():
    try:
        component_model(Scale, ScaleConfig, is_frozen=True)().initialize(ARGS)
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()


def test_a_point_takes_each_request_and_is_closed():
    taken = []

    class Taking:
        def __init__(self, config, args):
            taken.append((config.factor, args["model_name"]))

        def start(self, request):
            taken.append(request)

        def close(self):
            taken.append("closed")

    model = bls_model(Taking, ScaleConfig)()
    model.initialize(ARGS)
    assert model.execute(["one", "other"]) is None
    model.finalize()
    assert taken == [(3, "scaled"), "one", "other", "closed"]
