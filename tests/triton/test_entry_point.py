"""The entry point of a BLS model, from a request to its response, and how it closes."""

import json
import logging
import threading
from typing import Any

import numpy as np
import pytest
from plain_components import PlainComponents
from plain_streams import audio
from plain_triton import (
    TRITONSERVER_REQUEST_FLAG_SEQUENCE_END,
    TRITONSERVER_REQUEST_FLAG_SEQUENCE_START,
    InferenceRequest,
    InferenceResponse,
    Request,
    Tensor,
    TritonError,
    UnreadableTensor,
)
from waiting import wait_until

from conch.launcher.config import BLS_THREADS
from conch.launcher.logs import LogParser
from conch.recognition import Recognition, RecognitionConfig, own_components
from conch.triton.entry_point import EntryPoint, Lanes
from conch.triton.messages import THREADS
from conch.wire.access import fields_of, from_line
from conch.wire.errors import OverloadedError, from_wire

OUTPUTS = ["TRANSCRIPTS", "SCORES", "RESULT"]
START, END = TRITONSERVER_REQUEST_FLAG_SEQUENCE_START, TRITONSERVER_REQUEST_FLAG_SEQUENCE_END

CHILDREN = ("ctc_streaming_encoder", "ctc_streaming_decoder")


class Models:
    """Plain components as models of the fake Triton; a call may be held in its thread."""

    def __init__(self, models: dict) -> None:
        self.components = PlainComponents()
        self.answered: list[tuple[str, int]] = []
        """Model and flags of each call."""
        self.held: dict[str, threading.Event] = {}
        self.is_held = threading.Event()
        for name in ("vad", "attention_encoder", "attention_decoder", *CHILDREN):
            models[name] = self.answer

    def answer(self, request: InferenceRequest) -> InferenceResponse:
        if request.model in self.held:
            self.is_held.set()
            assert self.held[request.model].wait(20)
        arrays = {name: array[0] for name, array in request.inputs.items()}
        model = getattr(self.components, request.model)
        kept: tuple[list[Any], ...] = ([],) if request.model in CHILDREN else ()
        outputs = model(arrays, request.parameters, *kept)
        self.answered.append((request.model, request.flags))
        return InferenceResponse(
            [Tensor(name, outputs[name][np.newaxis]) for name in request.wanted]
        )


@pytest.fixture
def loaded(models):
    return Models(models)


def speech(*, is_decoupled: bool = False, **limits: Any) -> EntryPoint:
    config = RecognitionConfig(**limits)
    policy = {"model_transaction_policy": {"decoupled": is_decoupled}}
    args = {"model_name": "speech", "model_config": json.dumps(policy)}
    return EntryPoint(Recognition, config, own_components(), args)


@pytest.fixture
def entry_point(request):
    """An entry point, which takes several answers where a test says so."""
    entry_point = speech(is_decoupled=getattr(request, "param", False))
    yield entry_point
    entry_point.close()


both_ways = pytest.mark.parametrize("entry_point", [False, True], indirect=True)


def recording(text: str, **parameters) -> Request:
    return Request({"WAV": audio(text)[np.newaxis]}, OUTPUTS, parameters)


def chunk(text: str, flags: int) -> Request:
    return Request({"WAV": audio(text)[np.newaxis]}, OUTPUTS, {}, 1, flags)


def answer_to(request: Request) -> InferenceResponse:
    response = request.sender.sent.get(timeout=20)
    assert response is not None
    return response


def texts(response: InferenceResponse) -> list[str]:
    return [item.decode() for item in response.arrays()["TRANSCRIPTS"].ravel()]


def access_lines(caplog: pytest.LogCaptureFixture) -> list[dict]:
    """Return the fields of the lines that the access log has so far."""
    return [dict(fields) for record in caplog.records if (fields := fields_of(record))]


def closing(entry_point: EntryPoint) -> threading.Thread:
    thread = threading.Thread(target=entry_point.close)
    thread.start()
    return thread


def test_who_asks_learns_which_components_are_away(loaded, entry_point, caplog):
    request = recording("12", health=True)
    entry_point.start(request)
    found = json.loads(answer_to(request).arrays()["RESULT"].item())
    assert found == {"away": [], "on_demand": [], "models": [], "voices": []}
    assert request.sender.is_final
    assert not access_lines(caplog)


def test_a_recording_is_answered_once(loaded, entry_point):
    request = recording("12")
    entry_point.start(request)
    response = answer_to(request)
    assert request.sender.is_final
    assert texts(response) == ["spoken 0.20 0"]
    assert json.loads(response.arrays()["RESULT"].item())["text"] == "spoken 0.20 0"
    assert response.arrays()["SCORES"].tolist() == [[-1.0]]


def test_no_output_of_a_live_chunk_has_a_batch_dimension(loaded, entry_point):
    request = chunk("1..", START | END)
    entry_point.start(request)
    arrays = answer_to(request).arrays()
    assert [arrays[name].shape for name in OUTPUTS] == [(1,), (1,), (1,)]


@pytest.mark.parametrize("score", [np.nan, -np.inf])
def test_scores_are_numbers_that_json_can_hold(loaded, entry_point, score):
    decode = loaded.components.attention_decoder
    loaded.components.attention_decoder = lambda *row: {
        **decode(*row),
        "scores": np.array([score], np.float32),
    }
    request = recording("12")
    entry_point.start(request)
    arrays = answer_to(request).arrays()
    assert arrays["SCORES"].tolist() == [[np.finfo(np.float32).min]]
    (hypothesis,) = json.loads(arrays["RESULT"].item(), parse_constant=pytest.fail)["nbest"]
    expected = None if np.isnan(score) else np.finfo(np.float32).min
    assert hypothesis["score"] == expected


@pytest.mark.parametrize("entry_point", [True], indirect=True)
def test_an_answer_in_parts_ends_with_a_response_of_no_content(loaded, entry_point):
    request = recording("1" + "." * 5 + "2")
    entry_point.start(request)
    parts = [request.sender.sent.get(timeout=20) for _ in range(4)]
    assert [texts(part) for part in parts[:3]] == [["spoken 0.10 0"], ["spoken 0.20 0"], [""]]
    assert parts[3] is None
    assert request.sender.is_final


@both_ways
def test_an_error_has_its_code_on_both_ways(loaded, entry_point):
    request = recording("1", nbest=0)
    entry_point.start(request)
    error = answer_to(request).error()
    assert error.code() == TritonError.INVALID_ARG
    assert error.message().startswith("INVALID_OPTION: option 'nbest' takes an integer from 1")


@both_ways
def test_a_request_that_cannot_be_read_is_answered(loaded, entry_point, caplog):
    request = Request([UnreadableTensor("WAV", np.zeros((1, 1)))], OUTPUTS)
    with caplog.at_level(logging.INFO):
        entry_point.start(request)
        answer = answer_to(request).error().message()
        wait_until(lambda: access_lines(caplog))
    assert answer.startswith("INTERNAL: internal error")
    (line,) = access_lines(caplog)
    assert line["request"] == "call-7"
    assert line["outcome"] == "INTERNAL"
    assert answer == f"INTERNAL: {line['error']}"


@both_ways
def test_a_recording_has_a_line_in_the_access_log_of_the_server(
    loaded, entry_point, caplog, capsys
):
    with caplog.at_level(logging.INFO):
        entry_point.start(recording("1" + "." * 5 + "2"))
        wait_until(lambda: access_lines(caplog))
    (line,) = access_lines(caplog)
    assert line.pop("ms") > 0
    assert line.pop("call_ms") > 0
    assert line == {
        "request": "call-7",
        "model": "speech",
        "mode": "offline",
        "outcome": "ok",
        "audio_s": round(len(audio("1.....2")) / 16_000, 3),
        "rows": 1,
        "path": ["vad", "attention_encoder", "attention_decoder"],
        "calls": 5,
    }
    parsed = LogParser().parse(capsys.readouterr().err.strip())
    assert parsed.level == logging.INFO
    assert from_line(parsed.message)["path"] == line["path"]


@pytest.mark.parametrize(
    ("sent", "logged"),
    [
        ("order-7/a", "order-7/a"),
        (
            'x\nI1121 11:47:56.662560 39 forged.cc:1] "y"',
            "x_I1121_11:47:56.662560_39_forged.cc:1___y_",
        ),
        ("\x1b[2J" + "a" * 4000, "__2J" + "a" * 124),
    ],
)
def test_the_id_of_a_client_cannot_forge_a_line(loaded, entry_point, caplog, sent, logged):
    request = Request({}, OUTPUTS, {}, request_id=sent)
    with caplog.at_level(logging.INFO):
        entry_point.start(request)
        assert answer_to(request).has_error()
        wait_until(lambda: access_lines(caplog))
    (line,) = access_lines(caplog)
    assert line["request"] == logged
    assert line["outcome"] == "INVALID_AUDIO"


def test_a_live_stream_has_one_line_for_all_its_chunks(loaded, entry_point, caplog):
    with caplog.at_level(logging.INFO):
        for text, flags in (("1..", START), (".", 0), (".", END), (".", 0)):
            entry_point.start(request := chunk(text, flags))
            answer_to(request)
        wait_until(lambda: len(access_lines(caplog)) == 2)
    ended, unknown = access_lines(caplog)
    assert (ended["outcome"], ended["chunks"], ended["mode"]) == ("ok", 3, "two_pass")
    assert ended["path"][0] == "vad"
    assert ended["calls"] >= 3
    assert (unknown["outcome"], unknown["mode"]) == ("NO_SESSION", "none")


@pytest.mark.parametrize("is_decoupled", [False, True])
def test_a_call_without_a_thread_leaves_the_sender_alone_after_the_answer(loaded, is_decoupled):
    """Triton would end the whole server."""
    entry_point = speech(is_decoupled=is_decoupled, max_calls_in_flight=4)
    loaded.held["attention_encoder"] = threading.Event()
    before, late = recording("1"), recording("1", deadline_ms=200)
    entry_point.start(before)
    assert loaded.is_held.wait(20)  # by the only thread for recordings
    asked = []

    def is_cancelled() -> bool:
        asked.append(late.sender.is_final)
        return False

    late.sender.is_cancelled = is_cancelled
    entry_point.start(late)
    assert "deadline_ms of 200" in answer_to(late).error().message()
    wait_until(lambda: late.sender.is_final)
    loaded.held["attention_encoder"].set()
    assert not answer_to(before).has_error()
    entry_point.close()  # waits for the threads
    assert True not in asked
    assert [name for name, _ in loaded.answered].count("vad") == 1


def test_close_waits_until_what_has_ended_is_freed(loaded):
    entry_point = speech()
    for text, flags in (("1..", START), (".", END)):
        if flags == END:
            loaded.held["ctc_streaming_encoder"] = threading.Event()
        request = chunk(text, flags)
        entry_point.start(request)
        assert not answer_to(request).has_error()
    assert loaded.is_held.wait(20)
    thread = closing(entry_point)
    thread.join(0.05)
    assert thread.is_alive()
    loaded.held["ctc_streaming_encoder"].set()
    thread.join(20)
    assert not thread.is_alive()
    ended = {name for name, flags in loaded.answered if flags == END}
    assert ended == set(CHILDREN)


@pytest.mark.parametrize("is_decoupled", [False, True])
def test_close_answers_what_runs_and_leaves_no_thread(loaded, is_decoupled):
    threads = set(threading.enumerate())
    entry_point = speech(is_decoupled=is_decoupled)
    loaded.held["attention_encoder"] = threading.Event()
    request = recording("1")
    entry_point.start(request)
    assert loaded.is_held.wait(20)
    thread = closing(entry_point)
    error = from_wire(answer_to(request).error().message())
    assert isinstance(error, OverloadedError)
    assert "being unloaded" in str(error)
    loaded.held["attention_encoder"].set()
    thread.join(20)
    assert request.sender.is_final
    assert set(threading.enumerate()) <= threads
    assert loaded.answered == [("vad", 0), ("attention_encoder", 0)]


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
