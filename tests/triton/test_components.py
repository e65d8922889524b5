"""Calls of the components of this server."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from plain_triton import (
    InferenceResponse,
    Request,
    Tensor,
    TritonError,
)

from conch.orchestrator.absences import ComponentAwayError, StreamLostError
from conch.triton.components import TritonComponents
from conch.triton.statuses import triton_error
from conch.wire.errors import (
    ComponentError,
    MissingModelError,
    OptionError,
    OverloadedError,
    RequestCancelledError,
    SessionError,
    TranscriptionError,
)
from conch.wire.stream_place import StreamPlace


def call(components, model="vad", place=None, wanted=("speech_probs",), timeout_s=None):
    async def main():
        inputs = {"waveform": np.ones(3, np.float32)}
        return await components.call(model, inputs, wanted, {"nbest": 2}, timeout_s, place)

    return asyncio.run(main())


@pytest.fixture
def components():
    with ThreadPoolExecutor(1) as pool:
        request = Request([], [])
        yield TritonComponents(request, request.get_response_sender(), pool)


def failing(error: TritonError):
    return lambda request: InferenceResponse(error=error)


def test_a_call_carries_one_row_and_its_place(models, components):
    sent = []

    def vad(request):
        sent.append(request)
        return InferenceResponse([Tensor("speech_probs", request.inputs["waveform"] / 2)])

    models["vad"] = vad
    outputs = call(components, place=StreamPlace("a", starts=True, ends=True))
    assert outputs["speech_probs"].numpy().tolist() == [0.5, 0.5, 0.5]
    (request,) = sent
    assert request.inputs["waveform"].shape == (1, 3)
    assert (request.stream_id, request.flags, request.wanted) == ("a", 3, ["speech_probs"])
    assert request.parameters == {"nbest": 2}


def test_an_option_that_a_component_refuses_is_the_clients_word(models, components):
    refused = OptionError("a text that begins otherwise")
    models["vad"] = failing(triton_error(refused))
    with pytest.raises(OptionError, match=r"^a text that begins otherwise$"):
        call(components)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (triton_error(ComponentError("out of memory")), "vad: out of memory"),
        (triton_error(ValueError("a path: /srv")), r"vad: internal error; the server's log .*"),
        (
            TritonError("option 'x' of a model of your own"),
            "vad: option 'x' of a model of your own",
        ),
        (TritonError("Request timeout expired"), "vad: Request timeout expired"),
    ],
)
def test_what_else_a_component_says_is_its_error(models, components, error, message):
    models["vad"] = failing(error)
    with pytest.raises(TranscriptionError, match=f"^{message}$") as failure:
        call(components)
    assert type(failure.value) is ComponentError


def test_a_model_that_is_not_loaded_is_named(models, components):
    with pytest.raises(MissingModelError, match="rescore=true needs it") as missing:
        call(components, "rescorer")
    assert missing.value.model == "rescorer"


def test_a_server_that_is_going_is_no_defect(models, components, monkeypatch):
    monkeypatch.setattr("plain_triton.is_going", True)
    models["vad"] = failing(TritonError("Server not ready"))
    with pytest.raises(ComponentError, match=r"^vad: Server not ready$"):
        call(components)


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (
            TritonError("Stub process 'vad_0_1' is not healthy."),
            ComponentAwayError,
            "the process of vad has died",
        ),
        (
            TritonError(
                "inference request for sequence a to model 'vad' must specify the START flag"
            ),
            StreamLostError,
            "vad: inference request for sequence a",
        ),
        (
            triton_error(SessionError("stream a is expired or unknown; send START")),
            StreamLostError,
            "vad: stream a is expired or unknown; send START",
        ),
        (
            TritonError("timeout of the corresponding sequence has been expired"),
            OverloadedError,
            r"vad keeps as many streams as it takes \(max_candidate_sequences\); try again",
        ),
        (
            triton_error(ComponentError("Stub process 'vad_0_1' is not healthy.")),
            ComponentError,
            "vad: Stub process",
        ),
    ],
)
def test_tritons_words_for_what_is_lost_or_full_are_told_from_a_components(
    models, components, error, kind, message
):
    models["vad"] = failing(error)
    with pytest.raises(TranscriptionError, match=f"^{message}") as failure:
        call(components)
    assert type(failure.value) is kind


def test_no_call_is_made_once_the_answer_is_sent(models, components):
    models["vad"] = failing(TritonError("called"))
    components.close()
    with pytest.raises(RequestCancelledError, match="before vad was called"):
        call(components)
