"""Answer requests of a component whose rows are in flight together."""

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from itertools import count
from typing import Any, ClassVar, Protocol

import triton_python_backend_utils as pb_utils

from conch.component import Outputs, Row
from conch.component.in_flight import Reason
from conch.triton.logs import log_to_stderr
from conch.triton.memory import watch
from conch.triton.requests import component_response, rows_of
from conch.wire import leaving
from conch.wire.errors import DeadlineError, RequestCancelledError

LOOK_S = 0.05
"""Time between two questions whether the client has given up, each of which goes through Triton."""


class Starting(Protocol):
    """A component that answers a row later; see `conch.component.in_flight.InFlight.start`."""

    def start(self, row: Row, reason: Reason, /) -> "Future[Outputs]": ...


def start(requests: Sequence[Any], component: Starting) -> None:
    """Start to answer requests of Triton, each on its own; a bad request fails alone."""
    log_to_stderr()
    for request in requests:
        watch.called()
        _Request(request).start(component)


class _Request:
    """A request, until its rows are answered."""

    _numbered: ClassVar[dict[int, "_Request"]] = {}
    """Those that may be told to leave, by their number."""

    def __init__(self, request: Any) -> None:
        # The request is kept too: its tensors are in its memory.
        self._request, self._sender = request, request.get_response_sender()
        timeout_s = request.timeout() / 1e6
        self._deadline = time.monotonic() + timeout_s if timeout_s else None
        self._looked_at = time.monotonic()
        self._number = 0
        self._leaves = False

    def start(self, component: Starting) -> None:
        answers: list[Future[Outputs]] = []
        try:
            rows = rows_of(self._request)
            self._take_number(rows[0].parameters)
            for row in rows:
                answers.append(component.start(row, self._reason))
        except Exception as error:
            refused: Future[Outputs] = Future()
            refused.set_exception(error)
            answers.append(refused)
        # Of an iterator, as rows may end on several threads.
        ended = count(1)

        def answered(_: "Future[Outputs]") -> None:
            if next(ended) == len(answers):
                self._answer([answer.exception() or answer.result() for answer in answers])

        for answer in answers:
            answer.add_done_callback(answered)

    def _take_number(self, parameters: Mapping[str, Any]) -> None:
        """Keep the number of the call, or let the call leave that the parameters name."""
        if number := parameters.get(leaving.LEAVES):
            if leaves := self._numbered.get(number):
                leaves._leaves = True
            raise RequestCancelledError(f"call {number} leaves")
        self._number = parameters.get(leaving.NUMBER, 0)
        if self._number:
            self._numbered[self._number] = self

    def _reason(self) -> Exception | None:
        now = time.monotonic()
        if self._deadline is not None and now > self._deadline:
            return DeadlineError("the deadline has passed")
        if not self._leaves and now - self._looked_at >= LOOK_S:
            self._looked_at = now
            self._leaves = self._sender.is_cancelled()
        return RequestCancelledError("nobody waits for the call") if self._leaves else None

    def _answer(self, answers: Sequence[Any]) -> None:
        self._numbered.pop(self._number, None)
        response = component_response(answers, self._request.requested_output_names())
        self._sender.send(response, flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
