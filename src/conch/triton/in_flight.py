"""Answer requests of a component whose rows are in flight together."""

import gc
import time
from collections.abc import Sequence
from concurrent.futures import Future
from itertools import count
from typing import Any, ClassVar, Protocol

import triton_python_backend_utils as pb_utils

from conch.component import Outputs, Row
from conch.component.in_flight import Reason
from conch.triton.logs import log_to_stderr
from conch.triton.memory import watch
from conch.triton.requests import component_response, rows_of, triton_error
from conch.wire import entry_points
from conch.wire.errors import DeadlineError, RequestCancelledError

LOOK_S = 0.05
"""Seconds between two looks whether the client has given up, each of which goes through Triton."""


class Starting(Protocol):
    """A component that answers a row later; see `conch.component.in_flight.InFlight.start`."""

    def start(self, row: Row, reason: Reason, /) -> "Future[Outputs]":
        """Return the outputs of a row to be."""

    def close(self) -> None:
        """Answer what has started."""


def start(requests: Sequence[Any], component: Starting) -> None:
    """Start to answer requests of Triton, each on its own; a bad request fails alone."""
    log_to_stderr()
    watch.called()
    for request in requests:
        _Request(request).start(component)


def finish(component: Starting) -> None:
    """Answer what has started, and free its tensors: Triton's stub crashes where any outlive it."""
    component.close()
    gc.collect()


class _Request:
    _numbered: ClassVar[dict[int, "_Request"]] = {}
    """Requests that may be let go, by number."""

    def __init__(self, request: Any) -> None:
        # The request is kept too: its tensors are in its memory.
        self._request, self._sender = request, request.get_response_sender()
        timeout_s = request.timeout() / 1e6
        self._deadline = time.monotonic() + timeout_s if timeout_s else None
        self._looked_at = time.monotonic()
        self._number = 0
        self._is_unwanted = False
        self._answers: list[Future[Outputs]] = []
        # Of an iterator, as rows may end on several threads.
        self._ended = count(1)

    def start(self, component: Starting) -> None:
        try:
            rows = rows_of(self._request)
            self._let_leave(rows[0].parameters.get(entry_points.LEAVING_CALL))
            if number := rows[0].parameters.get(entry_points.CALL_NUMBER, 0):
                self._number = number
                self._numbered[number] = self
            for row in rows:
                self._answers.append(component.start(row, self._reason))
        except Exception as error:
            # First, as the first error is the answer; nobody waits for the other rows.
            self._answers.insert(0, Future())
            self._answers[0].set_exception(error)
            self._is_unwanted = True
        self._wait()

    def _wait(self) -> None:
        # Not in `start`: the frame of its error would keep the answer, and so itself.
        for answer in [*self._answers]:
            answer.add_done_callback(self._has_ended)

    def _let_leave(self, number: int | None) -> None:
        if number is None:
            return
        if named := self._numbered.get(number):
            named._is_unwanted = True
        raise RequestCancelledError(f"call {number} leaves")

    def _reason(self) -> Exception | None:
        now = time.monotonic()
        if self._deadline is not None and now > self._deadline:
            return DeadlineError("the deadline has passed")
        # A call with a number is one of `speech`, which Triton never cancels.
        if not (self._is_unwanted or self._number) and now - self._looked_at >= LOOK_S:
            self._looked_at = now
            self._is_unwanted = self._sender.is_cancelled()
        return RequestCancelledError("nobody waits for the call") if self._is_unwanted else None

    def _has_ended(self, _: "Future[Outputs]") -> None:
        if next(self._ended) < len(self._answers):
            return
        self._numbered.pop(self._number, None)
        # Taken out, so that no cycle of references keeps the tensors.
        answers, self._answers = self._answers, []
        request, self._request = self._request, None
        sender, self._sender = self._sender, None
        try:
            response = component_response(
                [*map(_outcome, answers)], request.requested_output_names()
            )
        except Exception as error:
            response = pb_utils.InferenceResponse(error=triton_error(error))
        sender.send(response, flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)


def _outcome(answer: "Future[Outputs]") -> Outputs | Exception:
    # Not raised here: its traceback would keep the request.
    error = answer.exception()
    return error if isinstance(error, Exception) else answer.result()
