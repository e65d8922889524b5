"""Requests whose rows are in flight together."""

import gc
import weakref
from concurrent.futures import Future

import numpy as np
import pytest
from plain_triton import Request, Tensor

from conch.component.in_flight import Reason
from conch.triton.in_flight import _Request, finish, start
from conch.wire import entry_points
from conch.wire.errors import InvalidRequestError, RequestCancelledError


class Held:
    """A component whose rows end when the test lets them."""

    def __init__(self) -> None:
        self.rows: list[tuple[float, Future, Reason]] = []

    def start(self, row, reason):
        value = float(row.inputs["x"][0])
        if value < 0:
            raise InvalidRequestError("x is at least 0")
        self.rows.append((value, Future(), reason))
        return self.rows[-1][1]

    def close(self) -> None:
        for value, future, reason in self.rows:
            if future.done():
                continue
            if error := reason():
                future.set_exception(error)
            else:
                future.set_result({"y": np.array([2 * value], np.float32)})


def asked(*values: float, **parameters) -> Request:
    rows = np.array(values, np.float32)[:, None]
    return Request([Tensor("x", rows)], ["y"], parameters=parameters)


def answer_of(request: Request):
    return request.get_response_sender().sent.get_nowait()


@pytest.fixture
def component() -> Held:
    return Held()


def test_each_request_is_answered_when_its_rows_are(component):
    two, one = asked(1, 2), asked(3)
    start([two, one], component)
    component.rows[2][1].set_result({"y": np.array([6], np.float32)})
    assert answer_of(one).arrays()["y"].tolist() == [[6]]
    component.rows[0][1].set_result({"y": np.array([2], np.float32)})
    assert two.get_response_sender().sent.empty()
    finish(component)
    assert answer_of(two).arrays()["y"].tolist() == [[2], [4]]


def test_a_bad_row_is_the_error_of_its_request_alone_and_ends_the_rows_beside_it(component):
    bad, good = asked(1, -1), asked(4)
    start([bad, good], component)
    assert isinstance(component.rows[0][2](), RequestCancelledError)
    finish(component)
    assert "x is at least 0" in answer_of(bad).error().message()
    assert answer_of(good).arrays()["y"].tolist() == [[8]]


def test_a_call_leaves_when_another_one_names_it(component):
    named, other, leaves = (
        asked(1, **{entry_points.CALL_NUMBER: 7}),
        asked(2, **{entry_points.CALL_NUMBER: 8}),
        asked(3, **{entry_points.LEAVING_CALL: 7}),
    )
    start([named, other, leaves], component)
    assert "call 7 leaves" in answer_of(leaves).error().message()
    finish(component)
    assert "nobody waits for the call" in answer_of(named).error().message()
    assert answer_of(other).arrays()["y"].tolist() == [[4]]
    assert not _Request._numbered


def test_a_call_that_is_unknown_cannot_leave(component):
    leaves = asked(3, **{entry_points.LEAVING_CALL: 99})
    start([leaves], component)
    assert "call 99 leaves" in answer_of(leaves).error().message()


def test_answers_that_do_not_fit_together_are_an_error(component):
    request = asked(1, 2)
    start([request], component)
    for length, (_, future, _) in enumerate(component.rows, 1):
        future.set_result({"y": np.zeros(length, np.float32)})
    assert "different shapes" in answer_of(request).error().message()


@pytest.mark.parametrize("value", [1, -1])
def test_an_answered_request_is_freed_at_once(component, value):
    """Its tensors are in Triton's shared memory."""
    request = asked(value)
    freed = weakref.ref(request)
    gc.disable()
    try:
        start([request], component)
        component.close()
        component.rows.clear()
        del request
        assert freed() is None
    finally:
        gc.enable()
