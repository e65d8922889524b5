"""Calls of the components of this server."""

import asyncio
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from http_server import Asked, http_server
from plain_processes import PlainProcesses, no_hangs
from plain_triton import InferenceResponse, Request, Tensor, TritonError

from conch.bls.call import Call, ComponentAwayError, ComponentHungError, StreamLostError
from conch.bls.hangs import PERIOD_S, HangWatch
from conch.bls.metrics import Metrics
from conch.component import bytes_array
from conch.recognition import own_components
from conch.triton.components import TritonComponents, load
from conch.triton.requests import triton_error
from conch.wire import entry_points
from conch.wire.entry_points import ChunkPosition, OnDemandSettings
from conch.wire.errors import (
    ComponentError,
    MissingModelError,
    OptionError,
    OverloadedError,
    RequestCancelledError,
    SessionError,
    TranscriptionError,
)


async def call(components, model="vad", sequence=None, wanted=("speech_probs",)):
    inputs = {"waveform": np.ones(3, np.float32)}
    return await components.call(Call(model, inputs, wanted, {"nbest": 2}, sequence))


@pytest.fixture
def components():
    with ThreadPoolExecutor(1) as pool:
        request = Request([], [])
        yield TritonComponents(None, request.get_response_sender(), no_hangs(), pool)


def failing(error: TritonError):
    return lambda request: InferenceResponse(error=error)


async def test_a_call_carries_one_row_and_its_place(models, components):
    sent = []

    def vad(request):
        sent.append(request)
        return InferenceResponse([Tensor("speech_probs", request.inputs["waveform"] / 2)])

    models["vad"] = vad
    outputs = await call(components, sequence=ChunkPosition("a", starts=True, ends=True))
    assert outputs["speech_probs"].numpy().tolist() == [0.5, 0.5, 0.5]
    (request,) = sent
    assert request.inputs["waveform"].shape == (1, 3)
    assert (request.stream_id, request.flags, request.wanted) == ("a", 3, ["speech_probs"])
    assert request.parameters == {"nbest": 2}


async def test_a_call_carries_the_key_of_its_server(models, components, monkeypatch):
    sent = []

    def vad(request):
        sent.append(request.parameters)
        return InferenceResponse([Tensor("speech_probs", request.inputs["waveform"])])

    models["vad"] = vad
    monkeypatch.setenv("CONCH_COMPONENT_KEY", "a-key-of-this-server")
    await call(components)
    assert sent == [{"nbest": 2, "component_key": "a-key-of-this-server"}]


async def test_an_option_that_a_component_refuses_is_the_clients_word(models, components):
    refused = OptionError("a text that begins otherwise")
    models["vad"] = failing(triton_error(refused))
    with pytest.raises(OptionError, match=r"^a text that begins otherwise$"):
        await call(components)


@pytest.mark.parametrize(
    "error",
    [
        TritonError(
            "Failed to increase the shared memory pool size for key 'conch-1-2' to 9 bytes"
        ),
        triton_error(RuntimeError("Failed to increase the shared memory pool size for key 'k'")),
    ],
    ids=["of Triton", "of the component"],
)
async def test_a_full_shared_memory_is_an_overload_without_names(models, components, error):
    models["vad"] = failing(error)
    with pytest.raises(OverloadedError, match=r"^the server is out of shared memory: "):
        await call(components)


async def test_a_model_that_is_not_loaded_is_named(models, components):
    with pytest.raises(MissingModelError, match="rescore=true needs it") as missing:
        await call(components, "rescorer")
    assert missing.value.model == "rescorer"


async def test_a_server_that_is_going_is_no_defect(models, components, monkeypatch):
    models["vad"] = failing(TritonError("not called"))
    monkeypatch.setattr("plain_triton.is_going", True)
    with pytest.raises(OverloadedError, match=r"^the server is stopping; "):
        await call(components)
    assert await components.is_loaded("vad")


async def test_what_is_loaded_is_asked_without_a_call_of_it(models, components):
    models["vad"] = failing(TritonError("not called"))
    assert await components.is_loaded("vad")
    assert not await components.is_loaded("rescorer")


async def test_the_end_of_a_stream_has_threads_of_its_own(models):
    names = []

    def vad(request):
        names.append(threading.current_thread().name)
        return InferenceResponse([Tensor("speech_probs", request.inputs["waveform"])])

    models["vad"] = vad
    with ThreadPoolExecutor(1, "calls") as pool, ThreadPoolExecutor(1, "ends") as ends:
        components = TritonComponents(None, None, no_hangs(), pool, ends)
        for is_end in (False, True):
            await call(components, sequence=ChunkPosition("a", starts=False, ends=is_end))
        await call(components)
    assert [name.split("_")[0] for name in names] == ["calls", "ends", "calls"]


async def test_a_cancelled_call_is_told_to_leave_where_rows_are_in_flight_together(models):
    came, may_answer, sent = threading.Event(), threading.Event(), []

    def decoder(request):
        sent.append(request)
        if entry_points.CALL_NUMBER in request.parameters:
            came.set()
            assert may_answer.wait(30)
        else:
            may_answer.set()
        return InferenceResponse(error=triton_error(RequestCancelledError("left")))

    models["moonshine_decoder"] = decoder
    inputs = {"encoder_out": np.ones((2, 3), np.float32)}
    with ThreadPoolExecutor(1) as pool, ThreadPoolExecutor(1) as ends:
        sender = Request([], []).get_response_sender()
        watch = HangWatch(PlainProcesses(), own_components(), 5.0, Metrics())
        components = TritonComponents(None, sender, watch, pool, ends)
        asked = Call("moonshine_decoder", inputs, ("hypotheses",))
        made = asyncio.create_task(components.call(asked))
        await asyncio.to_thread(came.wait, 30)
        made.cancel()
        with pytest.raises(asyncio.CancelledError):
            await made
        assert await asyncio.to_thread(may_answer.wait, 30)
    left, leaves = sent
    assert leaves.parameters == {
        entry_points.LEAVING_CALL: left.parameters[entry_points.CALL_NUMBER]
    }
    assert leaves.inputs.keys() == left.inputs.keys()


async def test_a_users_model_that_hangs_holds_its_own_threads_and_not_for_ever(models, monkeypatch):
    monkeypatch.setattr("conch.triton.components.POST_PATIENCE_S", 0.01)
    ends, free = [], threading.Event()

    def hanging(request):
        free.wait(20)
        ends.append(threading.current_thread().name)
        return InferenceResponse([])

    def vad(request):
        return InferenceResponse([Tensor("speech_probs", request.inputs["waveform"])])

    models.update(hanging=hanging, vad=vad)
    with ThreadPoolExecutor(1, "calls") as pool, ThreadPoolExecutor(1, "post") as post:
        components = TritonComponents(None, None, no_hangs(), pool, post=post)
        with pytest.raises(ComponentError, match=r"^hanging has not answered within 0\.01 s$"):
            await call(components, "hanging")
        assert "speech_probs" in await call(components)
        free.set()
    assert [name.split("_")[0] for name in ends] == ["post"]


async def test_a_call_that_the_component_does_not_answer_ends_it_and_fails(models):
    free, now = threading.Event(), [0.0]
    processes = PlainProcesses(began=-1.0)
    hangs = HangWatch(processes, own_components(), 5.0, Metrics(), lambda: now[0])

    def hanging(request):
        while not processes.killed:
            now[0] += PERIOD_S
            hangs.look()
        free.wait(20)
        return InferenceResponse(error=TritonError("Stub process 'vad_0_0' is not healthy."))

    models["vad"] = hanging
    with ThreadPoolExecutor(1) as pool:
        components = TritonComponents(None, None, hangs, pool)
        with pytest.raises(ComponentHungError, match=r"^vad has not answered a call for 60"):
            await call(components)
        free.set()
    assert processes.killed == ["vad"]


@pytest.mark.parametrize("model", ["vad", "of_a_user"])
async def test_calls_of_a_model_that_was_replaced_are_given_up_whatever_request_made_them(
    models, model
):
    begun, free = threading.Event(), threading.Event()
    hangs = no_hangs()

    def lost(request):
        begun.set()
        free.wait(20)
        return InferenceResponse(error=TritonError("Stub process 'vad_0_0' is not healthy."))

    models[model] = lost
    inputs = {"text": bytes_array(["a text"])}
    with ThreadPoolExecutor(1) as pool:
        made = TritonComponents(None, None, hangs, pool).call(Call(model, inputs, ("text",)))
        task = asyncio.create_task(made)
        assert await asyncio.to_thread(begun.wait, 20)
        other = TritonComponents(None, None, hangs, pool)
        other.give_up("another")
        other.give_up(model)
        other.give_up(model)
        with pytest.raises(ComponentAwayError, match=f"^{model} was replaced while"):
            await asyncio.wait_for(task, 10)
        free.set()


@pytest.mark.parametrize(
    ("value", "size"),
    [
        (np.zeros(3, np.float32), 12),
        (bytes_array(["a text", "of two"]), 12),
        (np.zeros((2, 2), np.int64), 32),
    ],
)
async def test_the_work_of_a_call_is_measured_by_its_bytes_and_its_beam(models, value, size):
    sizes = []

    class Watch(HangWatch):
        def calling(self, call, size, give_up):
            sizes.append(size)
            return super().calling(call, size, give_up)

    models["vad"] = lambda request: InferenceResponse([])
    watch = Watch(PlainProcesses(), own_components(), 5.0, Metrics())
    with ThreadPoolExecutor(1) as pool:
        components = TritonComponents(None, None, watch, pool)
        for work in (1, 4):
            await components.call(Call("vad", {"input": value}, (), work=work))
    assert sizes == [size, 4 * size]


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
        (triton_error(ComponentError("out of memory")), ComponentError, "vad: out of memory$"),
        (
            triton_error(ValueError("a path: /srv")),
            ComponentError,
            r"vad: internal error; the server's log .*",
        ),
        (
            TritonError("option 'x' of a model of your own"),
            ComponentError,
            "vad: option 'x' of a model of your own$",
        ),
        (
            TritonError("Request timeout expired"),
            ComponentError,
            "vad: Request timeout expired$",
        ),
    ],
)
async def test_tritons_words_for_what_is_lost_or_full_are_told_from_a_components(
    models, components, error, kind, message
):
    models["vad"] = failing(error)
    with pytest.raises(TranscriptionError, match=f"^{message}") as failure:
        await call(components)
    assert type(failure.value) is kind


async def test_no_call_is_made_once_the_answer_is_sent(models, components):
    models["vad"] = failing(TritonError("called"))
    components.close()
    with pytest.raises(RequestCancelledError, match="before vad was called"):
        await call(components)


ANSWERS: dict[str, tuple[int, bytes]] = {
    "/models/vad/load": (200, b""),
    "/models/rescorer/load": (
        400,
        json.dumps(
            {"error": "load failed: ValueError: torn\n\nAt:\n  /srv/model.py(3)\n"}
        ).encode(),
    ),
    "/models/punctuator/load": (503, b"not json"),
    "/models/neural_rescorer/load": (500, b""),
}


def answer(asked: Asked) -> tuple[int, bytes]:
    return ANSWERS[asked.path] if asked.headers["x-key"] == "secret" else (403, b"no key")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with http_server(answer) as port:
        yield f"http://127.0.0.1:{port}/models"


def loaded(url: str, model: str, key: str = "secret") -> None:
    asyncio.run(load(OnDemandSettings((model,), url, {"x-key": key}), model))


def test_a_model_is_loaded_whatever_proxy_there_is(url, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    loaded(url, "vad")


@pytest.mark.parametrize(
    ("model", "key", "said"),
    [
        ("rescorer", "secret", "^load failed: ValueError: torn$"),
        ("punctuator", "secret", "^not json$"),
        ("neural_rescorer", "secret", "500"),
        ("vad", "wrong", "^no key$"),
    ],
)
def test_the_error_is_the_servers_without_its_folders(url, model, key, said):
    with pytest.raises(ComponentError, match=said):
        loaded(url, model, key)


def test_a_server_that_does_not_answer_is_an_error():
    with pytest.raises(ComponentError, match=r"^the server has not answered: .*refused"):
        loaded("http://127.0.0.1:1/models", "vad")
