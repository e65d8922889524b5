"""A batch of requests to a component: each is answered, or fails, alone."""

import logging
import queue

import numpy as np
import pytest
from plain_triton import (
    InferenceRequest,
    InferenceResponse,
    Request,
    Tensor,
    TritonError,
    UnreadableTensor,
)

from conch.component import Row
from conch.launcher.logs import LogParser
from conch.triton.requests import respond, triton_error
from conch.wire.errors import (
    AudioError,
    ComponentError,
    DeadlineError,
    InvalidRequestError,
    MissingModelError,
    OptionError,
    OverloadedError,
    RequestCancelledError,
    SessionError,
    from_wire,
)


def doubled(rows: list[Row]) -> list:
    """A component that doubles `x`; a negative one is refused, 99 is too much for it."""
    if any(row.inputs["x"].max() == 99 for row in rows):
        raise MemoryError("99 is too much")
    return [
        OptionError("option 'x' is negative")
        if row.inputs["x"].min() < 0
        else {"y": row.inputs["x"] * 2, "z": row.inputs["x"]}
        for row in rows
    ]


def request(*rows: list[float], **more) -> Request:
    return Request({"x": np.array(rows, np.float32)}, ["y"], **more)


def outcomes(requests: list[Request], component=doubled) -> list:
    """The output of each request, or the text of its error."""
    responses = respond(requests, component)
    assert len(responses) == len(requests)
    return [
        item.error().message() if item.has_error() else item.arrays()["y"].tolist()
        for item in responses
    ]


def test_rows_go_back_to_their_requests_with_what_they_want():
    (one, two) = respond([request([1], [2]), request([3])], doubled)
    assert {name: array.tolist() for name, array in one.arrays().items()} == {"y": [[2], [4]]}
    assert two.arrays()["y"].tolist() == [[6]]


@pytest.mark.parametrize(
    "unreadable",
    [
        Request([UnreadableTensor("x", np.zeros((1, 1)))], ["y"]),
        Request([], ["y"]),
        Request([Tensor("x", np.zeros((2, 1))), Tensor("w", np.zeros((1, 1)))], ["y"]),
    ],
    ids=["on a GPU", "no tensor", "rows that differ in number"],
)
def test_a_request_that_cannot_be_read_fails_alone(unreadable):
    first, failed, last = outcomes([request([1]), unreadable, request([2])])
    assert (first, last) == ([[2]], [[4]])
    assert failed.startswith("INTERNAL: internal error")
    assert outcomes([unreadable])[0].startswith("INTERNAL")


def test_parameters_that_are_no_json_fail_alone():
    broken = request([1])
    broken.parameters = lambda: "{"
    failed, fine = outcomes([broken, request([2])])
    assert failed.startswith("INTERNAL: internal error")
    assert fine == [[4]]


def test_a_row_that_is_refused_fails_its_own_request():
    assert outcomes([request([1], [-1]), request([2])]) == [
        "INVALID_OPTION: option 'x' is negative",
        [[4]],
    ]


def test_a_row_that_the_whole_batch_raises_for_fails_its_own_request():
    (first, failed, last) = outcomes([request([1]), request([99]), request([2])])
    assert (first, last) == ([[2]], [[4]])
    assert failed.startswith("INTERNAL: internal error")


def test_chunks_of_streams_are_not_given_again():
    calls = []

    def stateful(rows):
        calls.append(len(rows))
        raise MemoryError

    outcomes([request([1], stream_id=1), request([2], stream_id=2)], stateful)
    assert calls == [2]


def test_rows_of_different_shapes_are_refused():
    def lengths(rows):
        return [{"y": np.zeros(int(row.inputs["x"][0]))} for row in rows]

    (refused, fine) = respond([request([1], [2]), request([3], [3])], lengths)
    assert refused.error().code() == TritonError.INVALID_ARG
    assert refused.error().message().startswith("INVALID_REQUEST: the rows of this request")
    assert fine.arrays()["y"].shape == (2, 3)


def test_a_row_knows_its_place_in_a_stream():
    seen = []

    def watching(rows):
        seen.extend((row.stream_id, row.starts, row.ends, row.parameters) for row in rows)
        return doubled(rows)

    sent = [
        request([1], stream_id="a", flags=1, parameters={"beam_size": 4}),
        request([1], stream_id="a", flags=0),
        request([1], stream_id="a", flags=2),
    ]
    outcomes(sent, watching)
    assert seen == [
        ("a", True, False, {"beam_size": 4}),
        ("a", False, False, {}),
        ("a", False, True, {}),
    ]


KEY = "a-key-of-this-server"


@pytest.mark.parametrize(
    "sent",
    [{}, {"component_key": ""}, {"component_key": "guessed"}, {"component_key": 7}],
    ids=["no key", "an empty one", "another", "no text"],
)
def test_a_component_with_a_key_refuses_calls_without_it_unread(monkeypatch, sent):
    monkeypatch.setenv("CONCH_COMPONENT_KEY", KEY)
    stranger = Request([UnreadableTensor("x", np.zeros((1, 1)))], ["y"], sent)
    refused, fine = outcomes([stranger, request([2], parameters={"component_key": KEY})])
    assert refused.startswith("INVALID_REQUEST: components take calls of speech and speech_stream")
    assert KEY not in refused
    assert "guessed" not in refused
    assert fine == [[4]]


def test_the_component_itself_does_not_see_the_key(monkeypatch):
    monkeypatch.setenv("CONCH_COMPONENT_KEY", KEY)
    seen = []

    def watching(rows):
        seen.extend(row.parameters for row in rows)
        return doubled(rows)

    outcomes([request([1], parameters={"component_key": KEY, "nbest": 2})], watching)
    assert seen == [{"nbest": 2}]


def test_without_a_key_a_component_answers_everybody(monkeypatch):
    monkeypatch.delenv("CONCH_COMPONENT_KEY", raising=False)
    assert outcomes([request([1]), request([2], parameters={"component_key": "any"})]) == [
        [[2]],
        [[4]],
    ]


def test_the_defect_of_a_component_is_an_error_in_the_server_s_log(capsys):
    def broken(rows):
        raise ZeroDivisionError("it is broken")

    (response,) = respond([request([1])], broken)
    reference = response.error().message().rpartition(" ")[2]
    line = LogParser().parse(capsys.readouterr().err.strip())
    assert line.level == logging.ERROR
    assert f"internal error {reference}" in line.message
    assert line.message.endswith("ZeroDivisionError: it is broken")


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (InvalidRequestError("bad"), TritonError.INVALID_ARG),
        (OptionError("bad"), TritonError.INVALID_ARG),
        (AudioError("bad"), TritonError.INVALID_ARG),
        (SessionError("bad"), TritonError.INVALID_ARG),
        (OverloadedError("full"), TritonError.UNAVAILABLE),
        (DeadlineError("late"), TritonError.UNAVAILABLE),
        (MissingModelError("not loaded", "vad"), TritonError.UNAVAILABLE),
        (RequestCancelledError("gone"), TritonError.CANCELLED),
        (ComponentError("vad: broken"), TritonError.INTERNAL),
    ],
)
def test_an_error_has_its_status_and_its_code(error, status):
    sent = triton_error(error)
    assert sent.code() == status
    assert type(from_wire(sent.message())) is type(error)


def test_a_defect_is_logged_and_its_words_stay_in_the_server(caplog):
    with caplog.at_level(logging.ERROR):
        sent = triton_error(KeyError("a path of the server: /srv/weights"))
    assert sent.code() == TritonError.INTERNAL
    assert "/srv/weights" not in sent.message()
    assert "KeyError" not in sent.message()
    assert sent.message().startswith("INTERNAL: internal error")
    assert sent.message().split()[-1] in caplog.text
    assert "/srv/weights" in caplog.text


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
